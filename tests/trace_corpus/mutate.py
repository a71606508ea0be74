"""Deterministic mutations of traces, numbered by seed.

``mutate(data: bytes, seed: int) -> (bytes, str, str)`` gives the mutated file, the mutations' names and the ending of
the file name.  ``python mutate.py TRACE --seeds 0:200 --out DIR`` writes DIR/mut_SEED.json[.gz] and DIR/index.json.
What is asked of an analysis: no traceback, no hang, a sentence for each refusal.
"""

import argparse
import copy
import gzip
import json
import os
import random

SALT = "visible"
NUMS = ("ts", "dur")
HUGE = (
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    10**19,
    10**30,
    -1,
    -(2**63),
    0,
    1e308,
    -1e308,
    5e-324,
)
WRONG = (
    None,
    True,
    False,
    "",
    "12",
    "x",
    "0x0",
    "-1",
    "1e400",
    [],
    [1],
    {},
    {"a": 1},
    1.5,
    -7,
    "\u0000",
    "\ud83d\ude00" * 50,
)


def rows(d, ph="X"):
    return [e for e in d["traceEvents"] if isinstance(e, dict) and e.get("ph") == ph]


def some(r, d, ph="X", share=None):
    x = rows(d, ph)
    n = max(1, int(len(x) * (share if share is not None else r.choice((0, 0, 0.01, 0.1, 0.5, 1)))))
    return r.sample(x, min(n, len(x))) if x else []


# --- mutations of the structure: each takes (random, dictionary) and changes it in place --------------------
def drop_key(r, d):
    k = r.choice(("ts", "dur", "pid", "tid", "name", "cat", "ph", "args", "id"))
    for e in some(r, d, r.choice("XXXsfM")):
        e.pop(k, None)


def drop_arg(r, d):
    k = r.choice(
        (
            "correlation",
            "External id",
            "stream",
            "device",
            "wait_on_cuda_event_record_corr_id",
            "name",
            "Python id",
            "Python parent id",
            "Collective name",
            "graph node id",
        )
    )
    for e in some(r, d, r.choice("XXM")):
        if isinstance(e.get("args"), dict):
            e["args"].pop(k, None)


def wrong_type(r, d):
    k, v = r.choice(("ts", "dur", "pid", "tid", "name", "cat", "ph", "args", "id")), r.choice(WRONG)
    for e in some(r, d, r.choice("XXXsfM")):
        e[k] = copy.deepcopy(v)


def wrong_arg(r, d):
    k, v = (
        r.choice(
            (
                "correlation",
                "External id",
                "stream",
                "device",
                "Python id",
                "Python parent id",
                "Input Dims",
                "Sequence number",
                "bytes",
                "graph id",
                "Process Group Ranks",
                "grid",
            )
        ),
        r.choice(WRONG),
    )
    for e in some(r, d):
        if isinstance(e.get("args"), dict):
            e["args"][k] = copy.deepcopy(v)


def huge(r, d):
    k, v = r.choice(("ts", "dur", "pid", "tid")), r.choice(HUGE)
    for e in some(r, d):
        e[k] = v


def huge_arg(r, d):
    k, v = (
        r.choice(("correlation", "External id", "stream", "device", "Python id", "bytes")),
        r.choice(HUGE),
    )
    for e in some(r, d):
        if isinstance(e.get("args"), dict):
            e["args"][k] = v


def nan(r, d):
    k, v = r.choice(NUMS), r.choice((float("nan"), float("inf"), float("-inf")))
    for e in some(r, d):
        e[k] = v


def absurd(r, d):
    for e in some(r, d, share=0.002):
        e["ts"] = r.choice((0, 1, -1e12, 9.2e15, 1e18, 4.1e9))


def absurd_many_threads(r, d):
    for k, e in enumerate(some(r, d, share=0.05)):
        e["tid"] = 100_000 + k
    absurd(r, d)


def negative(r, d):
    for e in some(r, d):
        if isinstance(e.get("dur"), (int, float)):
            e["dur"] = -e["dur"]


def zero(r, d):
    for e in some(r, d):
        e["dur"] = 0


def duplicate(r, d):
    d["traceEvents"] += copy.deepcopy(some(r, d, r.choice("XXsf")))


def same_ids(r, d):
    k = r.choice(("correlation", "External id", "Python id"))
    for e in some(r, d):
        if isinstance(e.get("args"), dict):
            e["args"][k] = 77


def parent_cycle(r, d):
    p = [e for e in rows(d) if e.get("cat") == "python_function"] or rows(d)[:20]
    for e in p:
        if isinstance(e.get("args"), dict):
            e["args"]["Python parent id"] = e["args"].get("Python id", 1)


def wait_cycle(r, d):
    x = [e for e in rows(d) if e.get("cat") == "cuda_runtime"][:200]
    for a, b in zip(x, x[1:] + x[:1]):
        d["traceEvents"].append(
            {
                "ph": "X",
                "cat": "cuda_sync",
                "name": "Stream Wait Event",
                "pid": 0,
                "tid": 7,
                "ts": a.get("ts", 0),
                "dur": 1,
                "args": {
                    "cuda_sync_kind": "Stream Wait Event",
                    "stream": r.choice((7, 13, 20)),
                    "wait_on_stream": r.choice((7, 13, 20)),
                    "correlation": a["args"].get("correlation"),
                    "wait_on_cuda_event_record_corr_id": b["args"].get("correlation"),
                    "device": 0,
                },
            }
        )


def overlapping(r, d):
    for e in some(r, d):
        try:
            e["ts"], e["dur"] = e["ts"] + e["dur"] * r.random(), e["dur"] * (0.5 + r.random())
        except TypeError:
            pass


def one_instant(r, d):
    x = some(r, d)
    for e in x:
        e["ts"] = x[0].get("ts")


def all_one_thread(r, d):
    for e in rows(d):
        e["pid"], e["tid"] = 1, 1


def thread_each(r, d):
    for k, e in enumerate(rows(d)):
        e["tid"] = k


def shuffle(r, d):
    r.shuffle(d["traceEvents"])


def reverse(r, d):
    d["traceEvents"].reverse()


def kernel_first(r, d):
    for e in rows(d):
        if e.get("cat") == "kernel" and isinstance(e.get("ts"), (int, float)):
            e["ts"] -= r.choice((1, 100, 1e4, 1e6))


def no_steps(r, d):
    d["traceEvents"] = [e for e in d["traceEvents"] if "ProfilerStep" not in str(e.get("name"))]


def nested_steps(r, d):
    for e in rows(d):
        if "ProfilerStep" in str(e.get("name")):
            e["ts"], e["dur"] = rows(d)[0].get("ts"), 1e7


def same_step_names(r, d):
    for e in rows(d):
        if "ProfilerStep" in str(e.get("name")):
            e["name"] = r.choice(
                (
                    "ProfilerStep#0",
                    "ProfilerStep#",
                    "ProfilerStep#99999999999999999999",
                    "ProfilerStep#x",
                )
            )


def deep(r, d):
    v = 1
    for _ in range(r.choice((50, 300, 900))):
        v = [v] if r.random() < 0.5 else {"a": v}
    e = r.choice(rows(d) or [{}])
    e[r.choice(("args", "name", "ts"))] = v


def deep_stack(r, d):
    t0 = next((e["ts"] for e in rows(d) if isinstance(e.get("ts"), (int, float))), 0)
    n = r.choice((500, 5000))
    for k in range(n):
        d["traceEvents"].append(
            {
                "ph": "X",
                "cat": r.choice(("cpu_op", "python_function")),
                "name": f"f{k}",
                "pid": 4000,
                "tid": 4000,
                "ts": t0 + k * 0.001,
                "dur": 3 * n * 0.001 - 2 * k * 0.001,
                "args": {"External id": 10**6 + k},
            }
        )


def long_names(r, d):
    for e in some(r, d, share=0.01):
        e["name"] = r.choice(
            (
                "A" * 200_000,
                "<script>alert(1)</script>",
                "a\nb\tc\"'\\",
                "\u202eabc",
                "../../x",
                "%s{0}",
                "",
            )
        )


def odd_rows(r, d):
    for v in (None, 1, "x", [], [[]], {}, {"ph": "X"}, {"ph": "Q", "ts": 1}, True):
        d["traceEvents"].insert(r.randrange(len(d["traceEvents"]) + 1), v)


def begin_end(r, d):
    for e in some(r, d):
        if isinstance(e.get("dur"), (int, float)) and isinstance(e.get("ts"), (int, float)):
            d["traceEvents"].append({**e, "ph": "E", "ts": e["ts"] + e["dur"]})
        e["ph"] = "B"


def lone_begin(r, d):
    for e in some(r, d):
        e["ph"] = r.choice("BEbeni")


def one_category(r, d):
    c = r.choice(
        (
            "kernel",
            "cpu_op",
            "cuda_runtime",
            "python_function",
            "gpu_memcpy",
            "overhead",
            "cuda_sync",
        )
    )
    d["traceEvents"] = [e for e in d["traceEvents"] if isinstance(e, dict) and e.get("cat") == c]


def no_category(r, d):
    c = r.choice(
        (
            "kernel",
            "cpu_op",
            "cuda_runtime",
            "user_annotation",
            "gpu_user_annotation",
            "ac2g",
            "cuda_sync",
        )
    )
    d["traceEvents"] = [e for e in d["traceEvents"] if isinstance(e, dict) and e.get("cat") != c]


def change_category(r, d):
    c = r.choice(
        (
            "kernel",
            "cpu_op",
            "cuda_runtime",
            "python_function",
            "gpu_memcpy",
            "Kernel",
            "weird",
            "overhead",
        )
    )
    for e in some(r, d):
        e["cat"] = c


def few_rows(r, d):
    d["traceEvents"] = d["traceEvents"][: r.choice((0, 1, 2, 10))]


def top_level(r, d):
    k = r.choice(
        (
            "traceEvents",
            "baseTimeNanoseconds",
            "distributedInfo",
            "deviceProperties",
            "displayTimeUnit",
            "schemaVersion",
        )
    )
    if r.random() < 0.4:
        d.pop(k, None)
    else:
        d[k] = copy.deepcopy(r.choice((*WRONG, *HUGE, float("nan"))))


def clock_jump(r, d):
    x = rows(d)
    cut = r.randrange(len(x) or 1)
    for e in x[cut:]:
        if isinstance(e.get("ts"), (int, float)):
            e["ts"] += r.choice((-1e7, 1e9, 3.6e9, -5))


def strings(r, d):
    for e in rows(d):
        for k in r.sample(("ts", "dur", "pid", "tid"), 2):
            e[k] = str(e.get(k))


STRUCTURE = [
    drop_key,
    drop_arg,
    wrong_type,
    wrong_arg,
    huge,
    huge_arg,
    nan,
    absurd,
    absurd_many_threads,
    negative,
    zero,
    duplicate,
    same_ids,
    parent_cycle,
    wait_cycle,
    overlapping,
    one_instant,
    all_one_thread,
    thread_each,
    shuffle,
    reverse,
    kernel_first,
    no_steps,
    nested_steps,
    same_step_names,
    deep,
    deep_stack,
    long_names,
    odd_rows,
    begin_end,
    lone_begin,
    one_category,
    no_category,
    change_category,
    few_rows,
    top_level,
    clock_jump,
    strings,
]


# --- mutations of the bytes ----------------------------------------------------------------------------------
def truncate(r, b):
    return b[: r.randrange(len(b) + 1)]


def cut_middle(r, b):
    i = r.randrange(len(b) + 1)
    return b[:i] + b[i + r.choice((1, 10, 1000, 100_000)) :]


def flip(r, b):
    b = bytearray(b)
    for _ in range(r.choice((1, 5, 100))):
        if b:
            b[r.randrange(len(b))] = r.randrange(256)
    return bytes(b)


def bom(r, b):
    return r.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"  \n", b"// x\n", b"\x1f\x8b")) + b


def tail(r, b):
    return b + r.choice((b"}", b"]", b"\x00" * 100, b, b",", b"\n{}\n", b"\xff"))


def utf16(r, b):
    return b.decode("utf-8", "replace").encode("utf-16")


def trailing_commas(r, b):
    return b.replace(b"}]", b"},]", 1)


def literals(r, b):
    return b.replace(
        b'"dur": ',
        r.choice(
            (
                b'"dur": NaN, "x": ',
                b'"dur": -Infinity, "x": ',
                b'"dur": 1e999, "x": ',
                b'"dur": 0x10, "x": ',
                b'"dur": ' + b"9" * 5000 + b', "x": ',
            )
        ),
        r.choice((1, 50)),
    )


def duplicate_keys(r, b):
    return b.replace(b'"ph": "X"', b'"ph": "X", "ph": "X", "ts": 5', r.choice((1, 1000)))


def nest(r, b):
    n = r.choice((100, 2000, 200_000))
    return r.choice(
        (b"[" * n, b'{"traceEvents":' * n, b'{"traceEvents":[' + b"[" * n + b"]" * n + b"]}")
    )


def nothing(r, b):
    return r.choice(
        (
            b"",
            b"null",
            b"{}",
            b"[]",
            b"0",
            b'"x"',
            b'{"traceEvents": null}',
            b'{"traceEvents": {}}',
            b"[{}]",
        )
    )


BYTES = [
    truncate,
    truncate,
    cut_middle,
    flip,
    flip,
    bom,
    tail,
    utf16,
    trailing_commas,
    literals,
    duplicate_keys,
    nest,
    nothing,
]


def gz_cut(r, b):
    return gzip.compress(b, 6, mtime=0)[: r.randrange(1, len(gzip.compress(b, 6, mtime=0)))]


def gz_flip(r, b):
    return flip(r, gzip.compress(b, 6, mtime=0))


def gz_tail(r, b):
    return gzip.compress(b, 6, mtime=0) + b"garbage"


def gz_crc(r, b):
    return gzip.compress(b, 6, mtime=0)[:-8] + b"\0" * 8


def gz_not(r, b):
    return b


def gz_two(r, b):
    h = len(b) // 2
    return gzip.compress(b[:h], 6, mtime=0) + gzip.compress(b[h:], 6, mtime=0)


GZIP = [gz_cut, gz_cut, gz_flip, gz_flip, gz_tail, gz_crc, gz_not, gz_two]


def mutate(data, seed):
    """The mutated file, the names of what was done, and the ending of its name."""
    r = random.Random(f"{SALT}:{seed}")
    raw = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    way = r.choice(("structure",) * 7 + ("bytes",) * 2 + ("gzip",))
    done, end = [], ".json"
    if way == "structure":
        d = json.loads(raw)
        if isinstance(d, list):  # ONNX Runtime's profile
            d = {"traceEvents": d}
            only = True
        else:
            only = False
        for f in r.sample(STRUCTURE, r.choice((1, 1, 1, 2, 3))):
            try:
                f(r, d)
                done.append(f.__name__)
            except (TypeError, KeyError, ValueError, AttributeError, IndexError, OverflowError):
                done.append(f.__name__ + "-not-applicable")
            if not isinstance(d.get("traceEvents"), list):
                break
        out = json.dumps(d.get("traceEvents") if only else d).encode("utf-8", "surrogatepass")
    elif way == "bytes":
        out = raw
        for f in r.sample(BYTES, r.choice((1, 1, 2))):
            out = f(r, out)
            done.append(f.__name__)
    else:
        f = r.choice(GZIP)
        out, end = f(r, raw), ".json.gz"
        done.append(f.__name__)
    return out, "+".join(done), end


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("trace", nargs="+")
    a.add_argument("--seeds", default="0:200")
    a.add_argument("--out", required=True)
    o = a.parse_args()
    os.makedirs(o.out, exist_ok=True)
    lo, hi = map(int, o.seeds.split(":"))
    index = {}
    for seed in range(lo, hi):
        src = o.trace[seed % len(o.trace)]
        with open(src, "rb") as f:
            out, names, end = mutate(f.read(), seed)
        path = f"mut_{seed:05d}{end}"
        with open(f"{o.out}/{path}", "wb") as f:
            f.write(out)
        index[path] = {"from": os.path.basename(src), "mutations": names}
    with open(f"{o.out}/index.json", "w") as f:
        json.dump(index, f, indent=1)
