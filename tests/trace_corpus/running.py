"""Run programs with planted bottlenecks plain, changed and under torch.profiler, and write what is true of them.

A program gives a step and what ends it.  Rounds of the plain and the changed program are interleaved,
so that a change of the machine's load meets all of them; a change's truth is the median, over the rounds, of its period
divided by the plain one of the same round.  Of two recordings the faster one is kept.
"""

import contextlib
import json
import multiprocessing as mp
import os
import socket
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace as NS

PROGRAMS = {}
ROUNDS = 1 if "--quick" in sys.argv else 5
STABLE = 0.12  # a change whose ratios' middle half spreads more than this is not scored


def program(classes, base, changes, **options):
    """A program: the right classes, parameters, and changes as (what-if, parameters of the changed program)."""
    default = dict(
        stack=True, unseen=False, n=8, skip=2, threads=1, mark="step", ranks=1, kept=None
    )
    assert set(options) <= set(default), options

    def deco(f):
        PROGRAMS[f.__name__] = NS(
            name=f.__name__,
            f=f,
            classes=classes,
            base=base,
            changes=changes,
            **{**default, **options},
        )
        return f

    return deco


def faster(name, by, **more):
    return [{"name": name, "speedup": by, **more}]


def op(name, by=None, **more):
    """The operator by so much faster, or not called at all."""
    return [{"op": name, **({"speedup": by} if by else {"remove": True}), **more}]


def period_s(step, n, skip):
    for i in range(skip):
        step(i)
    begun = time.perf_counter()
    for i in range(n):
        step(skip + i)
    return (time.perf_counter() - begun) / n


def record(pr, step, path):
    """A recording as users make it; its period."""
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    planned = None  # without stacks only a schedule marks steps
    if pr.mark == "step" and not pr.stack:
        planned = schedule(wait=1, warmup=pr.skip - 1, active=pr.n + 2, repeat=1)
    options = dict(activities=[ProfilerActivity.CPU], with_stack=pr.stack, schedule=planned)
    if planned:
        options["on_trace_ready"] = lambda ready: ready.export_chrome_trace(path)
    with profile(**options) as prof:
        for i in range(pr.skip):
            step(i)
            if pr.mark == "step":
                prof.step()
        begun = time.perf_counter()
        for i in range(pr.n + 2):
            with (
                record_function(pr.mark)
                if pr.mark not in ("step", None)
                else contextlib.nullcontext()
            ):
                step(i)
            taken = (time.perf_counter() - begun) / (i + 1)
            if pr.mark == "step":
                prof.step()  # after the last one a schedule writes the file
    if not planned:
        prof.export_chrome_trace(path)
    return taken


def measure(pr, folder, rank=0, meet=lambda: None):
    """All rounds and recordings of one process; medians, ratios and files."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(pr.threads)
    variants = {None: pr.base, **{k: {**pr.base, **p} for k, (_, p) in pr.changes.items()}}
    P = NS(**pr.base, rank=rank)
    step, close = pr.f(P)
    for i in range(3):
        step(i)
    rounds = []
    for r in range(ROUNDS):
        took = {}
        order = list(variants.items())
        for v, p in order[r % len(order) :] + order[: r % len(order)]:
            P.__dict__.update(p)
            meet()
            took[v] = period_s(step, pr.n, pr.skip)
        rounds.append(took)
    P.__dict__.update(pr.base)
    path = f"{folder}/{pr.name}.{rank}.json"
    meet()
    record(pr, step, path + ".discarded")
    taken = []
    for k in range(1 if pr.ranks > 1 else 2):
        meet()
        taken.append(record(pr, step, f"{path}.{k}"))
    best = taken.index(min(taken))
    os.replace(f"{path}.{best}", path)
    for k in ("discarded", "0", "1"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{path}.{k}")
    meet()
    return rounds, min(taken), close


def truth(pr, folder, rounds, profiled_s):
    """What is true of the program, as a file beside its traces."""
    plain = statistics.median(r[None] for r in rounds)
    changes = {}
    for k, (words, _) in pr.changes.items():
        ratios = sorted(r[k] / r[None] for r in rounds)
        quarter = len(ratios) // 4
        spread = ratios[-1 - quarter] / ratios[quarter] - 1
        changes[k] = {
            "whatif": {"name": k, "changes": words},
            "ratio": statistics.median(ratios),
            "spread": round(spread, 4),
            "stable": spread <= STABLE,
        }
    kept = range(pr.ranks) if pr.kept is None else pr.kept
    said = {
        "name": pr.name,
        "files": [f"{folder}/{pr.name}.{r}.json" for r in kept],
        "classes": pr.classes,
        "unseen": pr.unseen,
        "range": None if pr.mark in ("step", None) else pr.mark,
        "period_ns": plain * 1e9,
        "profiled_period_ns": profiled_s * 1e9,
        "dilation": profiled_s / plain,
        "changes": changes,
    }
    with open(f"{folder}/{pr.name}.truth.json", "w") as file:
        json.dump(said, file, indent=1)
    print(
        f"{pr.name}: {plain * 1e3:.2f} ms, dilation {said['dilation']:.2f}, "
        + ", ".join(
            f"{k} {c['ratio']:.3f}{'' if c['stable'] else ' unstable'}" for k, c in changes.items()
        ),
        flush=True,
    )


def one(name, folder):
    pr = PROGRAMS[name]
    rounds, taken, close = measure(pr, folder)
    truth(pr, folder, rounds, taken)
    try:
        close()
    finally:
        os._exit(0)


def rank_of(module, name, folder, rank, port, results):
    """One rank of a program of several processes."""
    import importlib

    import torch.distributed as dist

    importlib.import_module(module)
    pr = PROGRAMS[name]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=pr.ranks)
    rounds, taken, _ = measure(pr, folder, rank, dist.barrier)
    results.put((rank, rounds, taken))
    dist.barrier()
    dist.destroy_process_group()


def several(module, name, folder):
    pr = PROGRAMS[name]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ctx = mp.get_context("spawn")
    results = ctx.Queue()
    ps = [
        ctx.Process(target=rank_of, args=(module, name, folder, r, port, results))
        for r in range(pr.ranks)
    ]
    for p in ps:
        p.start()
    got = dict((r, (rounds, t)) for r, rounds, t in (results.get() for _ in ps))
    for p in ps:
        p.join()
    truth(pr, folder, got[0][0], max(t for _, t in got.values()))


def main(module, file):
    """NAME|all FOLDER [--quick]: one program, or each in a process of its own; quickly with one round."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        # The profiler's own memory keeps the program's from going back to the system after each step, which makes
        # profiled steps the faster ones: here it never goes back.
        kept = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(1 << 32)}
        os.execve(sys.executable, [sys.executable, file, *sys.argv[1:]], {**os.environ, **kept})
    name, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    if name == "all":
        for each in PROGRAMS:
            subprocess.run([sys.executable, file, each, folder], timeout=600)
    elif PROGRAMS[name].ranks > 1:
        several(module, name, folder)
    else:
        one(name, folder)
