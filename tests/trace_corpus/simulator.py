"""A discrete-event simulator of GPU programs that writes Kineto-shaped traces and knows its own truth.

Written from CUDA's documentation (stream and API synchronisation behaviour, programming guide) and Kineto's
exporter, never from the analysis that it judges.  Pure Python, no dependency.  All times are integer nanoseconds.

A program is a generator function ``main(h)`` run by a host thread ``h`` of each rank; ``h``'s methods are
generators used with ``yield from``.  Costs are tagged with a resource class, and a *change* (a neutral what-if
description, see README.md) is applied to the costs themselves, so that the truth of a change is the changed
program simulated again with the same noise.
"""

import gzip
import hashlib
import heapq
import json
import math
import re
from collections import deque

CLASSES = (
    "device_compute",
    "device_memory",
    "communication",
    "straggler",
    "data_loading",
    "host_framework",
    "python",
    "io",
    "sleep_or_lock",
    "outside",
    "profiler",
)
US, MS = 1_000, 1_000_000
BLOCKING_LEGACY = 7  # Kineto shows the default stream of a device as stream 7


class Ev:
    """One-shot event of the simulator."""

    __slots__ = ("fired", "t", "cbs")

    def __init__(self):
        self.fired, self.t, self.cbs = False, None, []

    def on(self, fn):
        if self.fired:
            fn()
        else:
            self.cbs.append(fn)


class Sim:
    def __init__(self):
        self.now, self.heap, self.seq = 0, [], 0

    def at(self, t, fn):
        self.seq += 1
        heapq.heappush(self.heap, (t, self.seq, fn))

    def fire(self, ev):
        if ev.fired:
            return
        ev.fired, ev.t = True, self.now
        cbs, ev.cbs = ev.cbs, []
        for fn in cbs:
            fn()

    def spawn(self, gen):
        done = Ev()

        def step():
            try:
                y = next(gen)
            except StopIteration:
                self.fire(done)
                return
            if isinstance(y, Ev):
                if y.fired:
                    self.at(self.now, step)
                else:
                    y.on(lambda: self.at(self.now, step))
            else:
                self.at(self.now + max(0, int(y)), step)

        self.at(self.now, step)
        return done

    def run(self, limit=10**13):
        while self.heap:
            t, _, fn = heapq.heappop(self.heap)
            if t > limit:
                raise RuntimeError("simulation ran past its limit")
            self.now = t
            fn()


class Engine:
    """Admission by shares: a work starts when its share fits; in order of readiness, the head of the line blocks."""

    def __init__(self, sim, capacity=1.0):
        self.sim, self.free, self.q = sim, capacity, deque()

    def acquire(self, share, fn):
        self.q.append((share, fn))
        self._go()

    def release(self, share):
        self.free += share
        self._go()

    def _go(self):
        while self.q and self.q[0][0] <= self.free + 1e-9:
            share, fn = self.q.popleft()
            self.free -= share
            fn()


class Work:
    __slots__ = (
        "kind",
        "name",
        "dur",
        "stream",
        "corr",
        "ext",
        "done",
        "t0",
        "t1",
        "engine",
        "share",
        "gap",
        "lat",
        "args",
        "submitted",
        "step",
        "slot",
        "coll",
        "marker",
        "rec",
        "graph",
    )

    def __init__(self, **kw):
        self.engine, self.share, self.gap, self.lat = None, 1.0, 0, 0
        self.args, self.slot, self.coll, self.marker, self.rec, self.graph = (
            None,
            True,
            None,
            False,
            True,
            None,
        )
        self.corr = self.ext = 0
        self.dur, self.done, self.t0, self.t1, self.step = 0, Ev(), None, None, None
        for k, v in kw.items():
            setattr(self, k, v)


class Stream:
    def __init__(self, dev, sid, blocking):
        self.dev, self.id, self.blocking = dev, sid, blocking
        self.tail = None  # last submitted work's done
        self.outstanding = 0
        self.free_slot = []  # host threads waiting for room


class CudaEvent:
    _n = 0

    def __init__(self):
        CudaEvent._n += 1
        self.id, self.work, self.corr, self.stream = CudaEvent._n, None, -1, -1


class Device:
    def __init__(self, world, rank, cfg):
        self.w, self.sim, self.rank, self.cfg = world, world.sim, rank, cfg
        self.compute = Engine(self.sim)
        self.copies = {"HtoD": Engine(self.sim), "DtoH": Engine(self.sim), "DtoD": Engine(self.sim)}
        self.comm = Engine(self.sim, 1e9)
        self.streams, self.works = {}, []

    def stream(self, sid):
        if sid not in self.streams:
            # PyTorch's pool streams are cudaStreamNonBlocking; streams that the case names "blocking" are not
            self.streams[sid] = Stream(self, sid, sid in self.cfg.get("blocking_streams", ()))
        return self.streams[sid]

    def tails(self):
        return [s.tail for s in self.streams.values() if s.tail is not None]

    def submit(self, work, extra=()):
        s = self.stream(work.stream)
        work.submitted = self.sim.now
        deps = [d for d in extra if d is not None]
        if s.tail is not None:
            deps.append(s.tail)
        if self.cfg.get("legacy_default", False):
            # legacy default stream: waits for all blocking streams, and all blocking streams wait for it
            if work.stream == BLOCKING_LEGACY:
                deps += [o.tail for o in self.streams.values() if o.blocking and o.tail is not None]
            elif (
                s.blocking
                and BLOCKING_LEGACY in self.streams
                and self.streams[BLOCKING_LEGACY].tail is not None
            ):
                deps.append(self.streams[BLOCKING_LEGACY].tail)
        s.tail = work.done
        if work.slot:
            s.outstanding += 1
        self.works.append(work)
        left = [len(deps) + 1]

        def dep():
            left[0] -= 1
            if left[0]:
                return
            if work.marker:
                work.t0 = self.sim.now
                if work.dur:
                    self.sim.at(self.sim.now + work.dur, lambda: self._finish(work, s))
                else:
                    self._finish(work, s)
                return
            ready = max(work.submitted + work.lat, self.sim.now + work.gap)
            self.sim.at(
                ready, lambda: work.engine.acquire(work.share, lambda: self._start(work, s))
            )

        for d in deps:
            d.on(dep)
        dep()

    def _start(self, work, s):
        work.t0 = self.sim.now
        if work.coll is not None:
            self.w.join_collective(work, lambda: self._finish(work, s))
        else:
            self.sim.at(self.sim.now + work.dur, lambda: self._finish(work, s))

    def _finish(self, work, s):
        work.t1 = self.sim.now
        if not work.marker:
            work.engine.release(work.share)
        if work.slot:
            s.outstanding -= 1
            if s.free_slot:
                self.sim.fire(s.free_slot.pop(0))
        self.sim.fire(work.done)


class World:
    """Everything of one simulated run."""

    def __init__(self, case, steps, changes=(), off=(), half=None, equal=False):
        self.case, self.steps, self.changes = case, steps, list(changes)
        self.half, self.equal = half, equal  # class whose costs are halved; stragglers made equal
        self.sim = Sim()
        self.cfg = case.get("config", {})
        self.seed = case.get("seed", 1)
        self.noise_level = case.get("noise", 0.01)
        self.counts, self.colls = {}, {}
        self.corr = 100
        self.ranks = []
        CudaEvent._n = 0
        for r in range(case.get("ranks", 1)):
            self.ranks.append(Rank(self, r))

    # --- costs ---------------------------------------------------------------------------------------------
    def noise(self, key):
        if not self.noise_level:
            return 1.0
        n = self.counts.get(key, 0)
        self.counts[key] = n + 1
        d = hashlib.blake2b(repr((self.seed, key, n)).encode(), digest_size=8).digest()
        a = (int.from_bytes(d[:4], "little") + 1) / 2**32
        b = int.from_bytes(d[4:], "little") / 2**32
        z = math.sqrt(-2 * math.log(min(a, 1.0))) * math.cos(2 * math.pi * b)
        return math.exp(self.noise_level * max(-3.0, min(3.0, z)))

    def cost(self, rank, target, name, ns, cls, enclosing=()):
        """The duration of one piece of work after noise, stragglers, changes and class scaling."""
        f = self.noise((rank, target, name))
        if not self.equal:
            for s in self.case.get("slow", ()):
                if s.get("rank") in (None, rank) and self._hit(s, target, name, enclosing):
                    f *= s["factor"]
        for c in self.changes:
            if c.get("rank") in (None, rank) and self._hit(c, target, name, enclosing):
                f *= 0.0 if c["kind"] == "remove" else c["factor"]
        if self.half == cls:
            f *= 0.5
        return int(round(ns * f))

    @staticmethod
    def _hit(c, target, name, enclosing):
        t = c["target"]
        cats = {"host_op": "cpu_op", "python": "python_function", "range": "user_annotation"}
        if t in cats:
            return any(cat == cats[t] and re.search(c["match"], n) for cat, n in enclosing)
        return t == target and re.search(c["match"], name) is not None

    def removed(self, rank, target, name):
        return any(
            c["kind"] == "remove"
            and c["target"] == target
            and c.get("rank") in (None, rank)
            and re.search(c["match"], name)
            for c in self.changes
        )

    # --- collectives ---------------------------------------------------------------------------------------
    def join_collective(self, work, finish):
        key, transfer, n = work.coll
        g = self.colls.setdefault(key, [])
        g.append(finish)
        if len(g) == n:
            # all ranks are there: the transfer begins; it ends together
            def end():
                for fn in g:
                    fn()

            self.sim.at(self.sim.now + transfer, end)

    def run(self):
        for r in self.ranks:
            r.start()
        self.sim.run()
        return self


class Rank:
    def __init__(self, world, rank):
        self.w, self.rank = world, rank
        self.dev = Device(world, rank, world.cfg)
        self.rows, self.flows = [], []
        self.pid = 4000 + rank * 37
        self.step, self.step_host, self.marks = -1, [], []
        self.coll_seq = 0
        self.ext = 1
        self.pyid = self.seq = self.bwd = self.fwd_seen = 0
        self.main = Host(self, self.pid, "main")

    def start(self):
        self.w.sim.spawn(self.w.case["main"](self.main))

    def thread(self, n=1):
        return Host(self, self.pid + 100 + n, f"thread{n}")


class Host:
    """One host thread."""

    def __init__(self, rank, tid, label):
        self.r, self.w, self.sim, self.tid, self.label = rank, rank.w, rank.w.sim, tid, label
        self.stack = []  # open rows: (cat, name)
        self.exts = [0]
        self.hidden = 0  # >0: nothing recorded (thread is not profiled)

    # --- rows ----------------------------------------------------------------------------------------------
    @property
    def enclosing(self):
        return [(c, n) for c, n, *_ in self.stack]

    def begin(self, name, cat="cpu_op", **args):
        ext = 0
        if cat in ("cpu_op", "user_annotation"):
            self.r.ext += 1
            ext = self.r.ext
            args = {"External id": ext, "Record function id": 0, **args}
            if name.startswith("aten::") and self is self.r.main:
                self.r.seq += 1
                args |= {"Fwd thread id": 0, "Sequence number": self.r.seq}
            elif name.startswith("autograd::") or "Backward0" in name:
                # backward goes through the forward's numbers in reverse order
                self.r.bwd = self.r.seq if self.r.seq != self.r.fwd_seen else max(1, self.r.bwd - 1)
                self.r.fwd_seen = self.r.seq
                args |= {"Fwd thread id": 1, "Sequence number": self.r.bwd}
        elif cat == "python_function":
            parent = next((s[4]["Python id"] for s in reversed(self.stack) if s[0] == cat), None)
            self.r.pyid += 1
            args = {"Python parent id": parent, "Python id": self.r.pyid, **args}
        self.stack.append((cat, name, self.sim.now, ext, args))
        self.exts.append(ext or self.exts[-1])

    def end(self):
        cat, name, t0, _, args = self.stack.pop()
        self.exts.pop()
        self.row(cat, name, t0, self.sim.now, args)

    def row(self, cat, name, t0, t1, args=None, pid=None, tid=None):
        if self.hidden or (cat == "python_function" and not self.w.cfg.get("stacks", False)):
            return
        self.r.rows.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": self.r.pid if pid is None else pid,
                "tid": self.tid if tid is None else tid,
                "t0": t0,
                "t1": t1,
                "args": args or {},
                "step": self.r.step,
            }
        )

    # --- plain costs ---------------------------------------------------------------------------------------
    def busy(self, ns, cls="host_framework", name="host"):
        yield self.w.cost(self.r.rank, "host", name, ns, cls, self.enclosing)

    def op(self, name, ns, cls="host_framework", body=None, **args):
        """A framework operator: half of its own time before what it calls, half after."""
        self.begin(name, "cpu_op", **args)
        d = self.w.cost(self.r.rank, "host", name, ns, cls, self.enclosing)
        yield d // 2
        if body is not None:
            yield from body
        yield d - d // 2
        self.end()

    def py(self, name, ns, cls="python", body=None):
        self.begin(name, "python_function")
        d = self.w.cost(self.r.rank, "host", name, ns, cls, self.enclosing)
        yield d // 2
        if body is not None:
            yield from body
        yield d - d // 2
        self.end()

    def sleep(self, ns):
        yield from self.py("<built-in function sleep>", ns, "sleep_or_lock")

    def wait(self, ev):
        if not ev.fired:
            yield ev

    # --- steps ---------------------------------------------------------------------------------------------
    def step_begin(self, i, name=None):
        self.r.step = i
        self.r.marks.append([i, self.sim.now, None])
        self.begin(name or f"ProfilerStep#{i}", "user_annotation")

    def step_end(self):
        self.end()
        self.r.marks[-1][2] = self.sim.now
        yield 0

    # --- CUDA ----------------------------------------------------------------------------------------------
    def api(
        self,
        name,
        ns=None,
        wait=None,
        submit=None,
        cat="cuda_runtime",
        cls="host_framework",
        settle=1500,
        wait_first=False,
    ):
        """One API call: its own cost, then what it waits for (or the wait first); submit runs at 70 % of its cost."""
        if self.w.removed(self.r.rank, "sync", name):
            return 0
        t0 = self.sim.now
        self.w.corr += 1
        corr = self.w.corr
        ns = self.w.cfg.get("api_ns", 4500) if ns is None else ns
        d = self.w.cost(self.r.rank, "runtime", name, ns, cls, self.enclosing)
        if wait_first:
            for ev in wait or ():
                if not ev.fired:
                    yield ev
            wait = ()
        if submit is None:
            yield d
        else:
            yield d * 7 // 10
            yield from submit(corr)
            yield d - d * 7 // 10
        waited = False
        for ev in wait or ():
            if not ev.fired:
                waited = True
                yield ev
        if waited:
            yield settle
        self.row(
            cat,
            name,
            t0,
            self.sim.now,
            {"External id": self.exts[-1], "cbid": 211, "correlation": corr},
        )
        if not self.exts[-1] and not self.hidden and self.r.rows:
            self.r.rows[-1]["args"].pop("External id", None)
        self._flow(corr, t0)
        return corr

    def _flow(self, corr, t0):
        if not self.hidden:
            self.r.flows.append(("s", corr, self.r.pid, self.tid, t0, self.r.step))

    def _room(self, sid):
        depth = self.w.cfg.get("queue_depth", 1022)
        s = self.r.dev.stream(sid)
        while s.outstanding >= depth:
            ev = Ev()
            s.free_slot.append(ev)
            yield ev

    def _work(self, kind, name, ns, stream, target, cls, engine, corr, **kw):
        d = max(200, self.w.cost(self.r.rank, target, name, ns, cls)) if ns else 0
        if target and self.w.removed(self.r.rank, target, name):
            d = 0
        return Work(
            kind=kind,
            name=name,
            dur=d,
            stream=stream,
            corr=corr,
            ext=self.exts[-1],
            engine=engine,
            step=self.r.step,
            rec=True,
            lat=self.w.cfg.get("launch_latency", 3000),
            gap=self.w.cfg.get("kernel_gap", 900),
            **kw,
        )

    def launch(
        self,
        name,
        ns,
        stream=7,
        sm=1.0,
        op=None,
        op_ns=8000,
        cls="device_compute",
        api="cudaLaunchKernel",
        cat="cuda_runtime",
        extra=(),
        **args,
    ):
        """A kernel launch, inside an operator if op is given."""
        if op is not None:
            yield from self.op(
                op,
                op_ns,
                body=self.launch(name, ns, stream, sm, None, 0, cls, api, cat, extra, **args),
            )
            return

        def submit(corr):
            yield from self._room(stream)
            w = self._work(
                "kernel",
                name,
                ns,
                stream,
                "kernel",
                cls,
                self.r.dev.compute,
                corr,
                share=sm,
                args={
                    "grid": [max(1, int(132 * sm)), 1, 1],
                    "block": [256, 1, 1],
                    "registers per thread": 64,
                    "shared memory": 0,
                    "blocks per SM": round(sm, 3),
                    "warps per SM": 8.0,
                    "est. achieved occupancy %": int(50 * sm),
                    **args,
                },
            )
            self.r.dev.submit(w, extra)

        yield from self.api(api, submit=submit, cat=cat)

    def graph(self, nodes, stream=7, graph_id=3, api_ns=12000):
        """One cudaGraphLaunch: nodes are (name, ns, gap before it); all carry the launch's correlation."""

        def submit(corr):
            yield from self._room(stream)
            for k, (name, ns, gap) in enumerate(nodes):
                memcpy = name.startswith("Mem")
                eng = self.r.dev.compute if not memcpy else self.r.dev.copies["DtoD"]
                w = self._work(
                    "gpu_memcpy" if memcpy else "kernel",
                    name,
                    ns,
                    stream,
                    "memcpy" if memcpy else "kernel",
                    "device_memory" if memcpy else "device_compute",
                    eng,
                    corr,
                    slot=k == len(nodes) - 1,
                    args={"graph id": graph_id, "graph node id": 1000 + k},
                )
                w.gap = self.w.cost(self.r.rank, "graph_gap", "graph gap", gap, "device_compute")
                w.graph = graph_id
                self.r.dev.submit(w)

        yield from self.api("cudaGraphLaunch", api_ns, submit=submit)

    def memcpy(
        self, direction, ns, stream=7, host="Pinned", op="aten::copy_", nbytes=None, op_ns=6000
    ):
        """cudaMemcpyAsync.  Pageable host to device: the stream is synchronised first and the call returns when the
        buffer is staged.  Device to pageable host: returns when the copy has completed.  Pinned: asynchronous."""
        src, dst = {
            "HtoD": (host, "Device"),
            "DtoH": ("Device", host),
            "DtoD": ("Device", "Device"),
        }[direction]
        name = f"Memcpy {direction} ({src} -> {dst})"
        dev = self.r.dev

        def body():
            waits = []

            def submit(corr):
                if host == "Pageable" and direction == "HtoD":
                    tail = dev.stream(stream).tail
                    if tail is not None and not tail.fired:
                        yield tail
                yield from self._room(stream)
                w = self._work(
                    "gpu_memcpy",
                    name,
                    ns,
                    stream,
                    "memcpy",
                    "device_memory",
                    dev.copies[direction],
                    corr,
                    args={"bytes": nbytes or ns * 12, "memory bandwidth (GB/s)": 12.0},
                )
                dev.submit(w)
                if host == "Pageable":
                    if direction == "DtoH":
                        waits.append(w.done)
                    elif direction == "HtoD":  # staged: all but the last tenth of the transfer
                        yield w.dur * 9 // 10 + w.lat

            yield from self.api("cudaMemcpyAsync", 6000, submit=submit, wait=waits)

        if op is None:
            yield from body()
        else:
            yield from self.op(op, op_ns, body=body())

    def memset(self, ns, stream=7):
        def submit(corr):
            yield from self._room(stream)
            self.r.dev.submit(
                self._work(
                    "gpu_memset",
                    "Memset (Device)",
                    ns,
                    stream,
                    "memcpy",
                    "device_memory",
                    self.r.dev.compute,
                    corr,
                    args={"bytes": ns * 500},
                )
            )

        yield from self.api("cudaMemsetAsync", submit=submit)

    def item(self, stream=7, pinned=False):
        """tensor.item(): a small copy to the host and a wait for the stream."""

        def body():
            yield from self.memcpy(
                "DtoH", 1500, stream, host="Pinned" if pinned else "Pageable", op=None, nbytes=4
            )
            yield from self.sync_stream(stream)

        yield from self.op(
            "aten::item", 3000, body=self.op("aten::_local_scalar_dense", 4000, body=body())
        )

    def _sync_row(self, kind, corr, t0, stream, **args):
        if self.w.cfg.get("sync_events", False) and not self.hidden:
            self.r.rows.append(
                {
                    "ph": "X",
                    "cat": "cuda_sync",
                    "name": kind,
                    "pid": self.r.rank,
                    "tid": stream,
                    "t0": t0,
                    "t1": self.sim.now,
                    "step": self.r.step,
                    "args": {
                        "cuda_sync_kind": kind,
                        **args,
                        "stream": stream,
                        "correlation": corr,
                        "device": self.r.rank,
                        "context": 1,
                    },
                }
            )

    def sync_stream(self, stream=7):
        t0, tail = self.sim.now, self.r.dev.stream(stream).tail
        c = yield from self.api("cudaStreamSynchronize", 3000, wait=[tail] if tail else [])
        self._sync_row("Stream Sync", c, t0, stream)

    def sync_device(self):
        t0 = self.sim.now
        c = yield from self.api("cudaDeviceSynchronize", 3000, wait=self.r.dev.tails())
        self._sync_row("Context Sync", c, t0, -1)

    def malloc(self, ns=90_000):
        """cudaMalloc: the device is synchronised across its streams, then the memory is mapped."""
        yield from self.api("cudaMalloc", ns, wait=self.r.dev.tails(), wait_first=True)

    def free(self, ns=60_000):
        """cudaFree: implicit synchronisation with all work that was submitted before."""
        yield from self.api("cudaFree", ns, wait=self.r.dev.tails(), wait_first=True)

    def record(self, event, stream=7):
        def submit(corr):
            w = Work(
                kind="event",
                name="record",
                stream=stream,
                marker=True,
                slot=False,
                step=self.r.step,
                rec=False,
            )
            event.work, event.corr, event.stream = w, corr, stream
            self.r.dev.submit(w)
            yield 0

        yield from self.api("cudaEventRecord", 1500, submit=submit)
        if self.w.cfg.get("sync_events", False) and not self.hidden and event.work is not None:
            self.r.rows.append(
                {
                    "ph": "X",
                    "cat": "cuda_event",
                    "name": "cudaEvent",
                    "pid": self.r.rank,
                    "tid": stream,
                    "t0": self.sim.now,
                    "t1": self.sim.now,
                    "step": self.r.step,
                    "args": {
                        "event_id": event.id,
                        "stream": stream,
                        "correlation": event.corr,
                        "device": self.r.rank,
                        "context": 1,
                    },
                }
            )

    def stream_wait(self, stream, event):
        """cudaStreamWaitEvent: the record that is current at the call; an event never recorded does not wait."""
        src, t0 = event.work, self.sim.now

        def submit(corr):
            w = Work(
                kind="wait",
                name="wait",
                stream=stream,
                marker=True,
                slot=False,
                step=self.r.step,
                rec=False,
            )
            self.r.dev.submit(w, [src.done] if src is not None else [])
            yield 0

        c = yield from self.api("cudaStreamWaitEvent", 1200, submit=submit)
        self._sync_row(
            "Stream Wait Event",
            c,
            t0,
            stream,
            wait_on_stream=event.stream,
            wait_on_cuda_event_record_corr_id=event.corr,
            wait_on_cuda_event_id=event.id,
        )

    def sync_event(self, event):
        t0 = self.sim.now
        c = yield from self.api(
            "cudaEventSynchronize", 2500, wait=[event.work.done] if event.work else []
        )
        self._sync_row(
            "Event Sync",
            c,
            t0,
            event.stream,
            wait_on_stream=event.stream,
            wait_on_cuda_event_record_corr_id=event.corr,
            wait_on_cuda_event_id=event.id,
        )

    def poll(self, event, pause_ns):
        """while not event.query(): pause"""
        while True:
            ready = event.work is None or event.work.done.fired
            yield from self.api("cudaEventQuery", 1800)
            if ready:
                return
            yield pause_ns

    def wait_value(self, stream, ns):
        """cuStreamWaitValue32, released by somebody outside ns after the stream comes to it."""

        def submit(corr):
            d = self.w.cost(self.r.rank, "outside", "cuStreamWaitValue32", ns, "outside")
            self.r.dev.submit(
                Work(
                    kind="waitvalue",
                    name="v",
                    stream=stream,
                    marker=True,
                    slot=False,
                    dur=d,
                    step=self.r.step,
                    rec=False,
                )
            )
            yield 0

        yield from self.api("cuStreamWaitValue32_v2", 1500, submit=submit, cat="cuda_driver")

    def host_func(self, stream, ns):
        """cudaLaunchHostFunc: the stream waits while a driver thread runs the function; the thread is not profiled."""

        def submit(corr):
            d = self.w.cost(self.r.rank, "outside", "cudaLaunchHostFunc", ns, "outside")
            self.r.dev.submit(
                Work(
                    kind="hostfunc",
                    name="f",
                    stream=stream,
                    marker=True,
                    slot=False,
                    dur=d,
                    step=self.r.step,
                    rec=False,
                )
            )
            yield 0

        yield from self.api("cudaLaunchHostFunc", 3000, submit=submit)

    def collective(
        self,
        transfer_ns,
        stream=20,
        name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        coll="allreduce",
        nelems=25_000_000,
        wait_on=7,
    ):
        """A collective on its own stream after what the compute stream has: it ends when all ranks are there and the
        transfer is done."""
        r, n = self.r, len(self.w.ranks) if len(self.w.ranks) > 1 else 1
        e = CudaEvent()
        r.coll_seq += 1
        key, seq = (coll, r.coll_seq), r.coll_seq

        def body():
            if wait_on is not None:
                yield from self.record(e, wait_on)
                yield from self.stream_wait(stream, e)

            def submit(corr):
                yield from self._room(stream)
                w = self._work(
                    "kernel",
                    name,
                    transfer_ns,
                    stream,
                    "collective",
                    "communication",
                    r.dev.comm,
                    corr,
                    args={
                        "Collective name": coll,
                        "In msg nelems": nelems,
                        "Out msg nelems": nelems,
                        "Group size": max(n, self.w.cfg.get("world_size", n)),
                        "dtype": "Float",
                        "Process Group Name": "0",
                        "Process Group Description": "default_pg",
                        "Process Group Ranks": str(
                            list(range(max(n, self.w.cfg.get("world_size", n))))
                        ),
                        "Seq": seq,
                        "grid": [24, 1, 1],
                        "block": [544, 1, 1],
                    },
                )
                # one transfer time for all ranks: the first that comes fixes it
                d = self.w.colls.setdefault(("dur",) + key, w.dur)
                w.dur, w.coll = d, (key, d, n)
                extra = []
                if n == 1 and self.w.case.get("remote_late"):
                    late = self.w.cost(
                        r.rank, "outside", "remote rank", self.w.case["remote_late"], "outside"
                    )
                    w.dur += late
                    w.coll = (key, w.dur, 1)
                r.dev.submit(w, extra)

            yield from self.api("cudaLaunchKernelExC", submit=submit)

        self.begin("c10d::allreduce_" if coll == "allreduce" else f"c10d::{coll}_")
        yield from self.busy(6000)
        yield from self.op(
            "record_param_comms",
            9000,
            body=body(),
            **{
                "Collective name": coll,
                "dtype": "Float",
                "In msg nelems": nelems,
                "Out msg nelems": nelems,
                "Group size": max(n, self.w.cfg.get("world_size", n)),
                "Process Group Name": "0",
                "Rank": r.rank,
                "Seq": seq,
            },
        )
        self.end()

    def comm_wait(self, stream=20, on=7):
        """work.wait() of a collective: the compute stream waits for the communication stream."""
        e = CudaEvent()
        yield from self.record(e, stream)
        yield from self.stream_wait(on, e)

    # --- threads, loaders, profiler ------------------------------------------------------------------------
    def backward(
        self,
        gen_fn,
        thread=1,
        stacks_name="<built-in method run_backward of torch._C._EngineBase object at 0x7f31>",
    ):
        """The autograd thread runs; the main thread waits in the engine."""
        t = self.r.thread(thread)
        self.begin(stacks_name, "python_function")
        yield self.w.cost(self.r.rank, "host", "engine", 15_000, "host_framework", self.enclosing)
        done = self.sim.spawn(gen_fn(t))
        yield from self.wait(done)
        yield 4000
        self.end()

    def overhead(self, ns, name="Activity Buffer Request"):
        t0 = self.sim.now
        d = self.w.cost(self.r.rank, "overhead", name, ns, "profiler")
        yield d
        if d:
            self.row("overhead", name, t0, self.sim.now, {}, pid=-1, tid=self.tid)

    def loader_next(self, loader, own_ns=40_000, n="_MultiProcessingDataLoaderIter"):
        self.begin(f"enumerate(DataLoader)#{n}.__next__", "user_annotation")
        yield from self.busy(own_ns, "data_loading", "loader own")
        if loader is not None:
            yield from loader.get()
        self.end()


class Loader:
    """DataLoader workers: other processes, not in the trace; each holds at most `prefetch` finished batches."""

    def __init__(self, rank, workers, item_ns, prefetch=2):
        self.r, self.sim, self.w = rank, rank.w.sim, rank.w
        self.item, self.n = item_ns, workers
        self.ready = [deque() for _ in range(workers)]
        self.room = [prefetch] * workers
        self.wake = [None] * workers
        self.turn, self.waiting = 0, None
        for k in range(workers):
            self.sim.spawn(self._worker(k))

    def _worker(self, k):
        yield k * self.item // self.n  # worker processes start one after the other
        while self.r.step < self.w.steps:
            while not self.room[k]:
                self.wake[k] = Ev()
                yield self.wake[k]
            self.room[k] -= 1
            if self.r.step >= self.w.steps - 1 and len(self.ready[k]) > 1:
                return
            yield self.w.cost(
                self.r.rank, "data_loader", f"DataLoader worker {k}", self.item, "data_loading"
            )
            self.ready[k].append(self.sim.now)
            if self.waiting is not None:
                ev, self.waiting = self.waiting, None
                self.sim.fire(ev)

    def get(self):
        k = self.turn
        self.turn = (k + 1) % self.n  # batches come in order
        while not self.ready[k]:
            self.waiting = Ev()
            yield self.waiting
        self.ready[k].popleft()
        self.room[k] += 1
        if self.wake[k] is not None:
            ev, self.wake[k] = self.wake[k], None
            self.sim.fire(ev)
        yield 30_000


# --- truth -------------------------------------------------------------------------------------------------
def completions(rank):
    """Per step: when its host part and all device work submitted in it are over, made monotone."""
    done = {i: t1 for i, _, t1 in rank.marks if t1 is not None}
    for w in rank.dev.works:
        if w.step in done and w.t1 is not None:
            done[w.step] = max(done[w.step], w.t1)
    out, m = [], 0
    for i in sorted(done):
        m = max(m, done[i])
        out.append(m)
    return out


def period_of(world, skip=None, statistic="mean"):
    """The steady period in ns: slope (or median difference) of the completions after the warm-up."""
    best = 0.0
    for r in world.ranks:
        c = completions(r)
        k = len(c) // 3 if skip is None else skip
        k = max(1, min(k, len(c) - 2))
        if statistic == "median":
            d = sorted(b - a for a, b in zip(c[k:], c[k + 1 :]))
            p = (d[len(d) // 2] + d[(len(d) - 1) // 2]) / 2
        else:
            p = (c[-1] - c[k]) / (len(c) - 1 - k)
        best = max(best, p)
    return best


def simulate(case, changes=(), steps=None, half=None, equal=False):
    return World(case, steps or case.get("long_steps", 45), changes, half=half, equal=equal).run()


def true_period(case, changes=(), half=None, equal=False):
    return period_of(
        simulate(case, changes, None, half, equal), case.get("skip"), case.get("statistic", "mean")
    )


def class_gains(case):
    """By how much the period falls when each class's work is made twice as fast (straggler: ranks made equal)."""
    base = true_period(case)
    g = {}
    for c in CLASSES:
        p = (
            true_period(case, equal=True)
            if c == "straggler" and case.get("slow")
            else base
            if c == "straggler"
            else true_period(case, half=c)
        )
        g[c] = 1 - p / base
    return base, g


# --- the trace ---------------------------------------------------------------------------------------------
def _us(ns, quantum):
    if quantum:  # epoch-stamped traces: a double holds a quarter of a microsecond there
        return float(ns // 250 * 250) / 1000.0
    return round(ns / 1000.0, 3)


def trace_of(world, rank, case):
    """The Kineto-shaped dictionary of one rank."""
    r, cfg = world.ranks[rank], world.cfg
    first, last = case.get("record", (0, world.steps - 1))
    skew = case.get("clock_skew", {}).get(rank, 0)
    epoch = cfg.get("epoch", False)
    base = 1_790_857_026_000_000_000
    off = (base if epoch else 4_569_992_000_000_000) + skew
    q = epoch
    w0 = min(m[1] for m in r.marks if m[0] >= first) - cfg.get("window_lead", 30_000)
    w1 = max(
        [m[2] for m in r.marks if m[0] <= last]
        + (
            [x.t1 for x in r.dev.works if x.step is not None and x.step <= last and x.t1]
            if cfg.get("drain", True)
            else []
        )
    )
    ev = []

    def add(cat, name, pid, tid, t0, t1, args):
        ev.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": _us(t0 + off, q),
                "dur": _us(t1 - t0, q),
                "args": args,
            }
        )

    tids = set()
    for row in r.rows:
        if row["cat"] in ("python_function",) and not (first <= row["step"] <= last):
            continue
        if (
            row["t0"] >= w0
            and first <= row["step"] <= last
            or (case.get("keep_all") and row["cat"] != "x")
        ):
            add(row["cat"], row["name"], row["pid"], row["tid"], row["t0"], row["t1"], row["args"])
            if row["pid"] == r.pid:
                tids.add(row["tid"])
    flows = {}
    for kind, corr, pid, tid, t0, step in r.flows:
        if (t0 >= w0 and first <= step <= last) or case.get("keep_all"):
            flows[corr] = (pid, tid, t0)
    streams, ann = set(), {}
    for w in r.dev.works:
        if not w.rec or w.marker or w.t1 is None or w.t0 < w0 or w.t0 > w1:
            continue
        if w.step > last or (
            w.step < first and not cfg.get("carry_in", True) and not case.get("keep_all")
        ):
            continue
        if not cfg.get("drain", True) and w.t1 > w1:
            continue
        args = {"External id": w.ext} if w.ext and w.step >= first else {}
        args.update(
            {"queued": 0, "device": rank, "context": 1, "stream": w.stream, "correlation": w.corr}
        )
        args.update(w.args or {})
        if cfg.get("no_correlation"):
            for k in ("correlation", "External id"):
                args.pop(k, None)
        add(w.kind, w.name, rank, w.stream, w.t0, w.t1, args)
        streams.add(w.stream)
        if w.step >= first:
            a = ann.setdefault((w.step, w.stream), [w.t0, w.t1])
            a[0], a[1] = min(a[0], w.t0), max(a[1], w.t1)
        if w.corr in flows and not cfg.get("no_correlation"):
            pid, tid, t0 = flows[w.corr]
            ev.append(
                {
                    "ph": "s",
                    "id": w.corr,
                    "pid": pid,
                    "tid": tid,
                    "ts": _us(t0 + off, q),
                    "cat": "ac2g",
                    "name": "ac2g",
                }
            )
            ev.append(
                {
                    "ph": "f",
                    "id": w.corr,
                    "pid": rank,
                    "tid": w.stream,
                    "ts": _us(w.t0 + off, q),
                    "cat": "ac2g",
                    "name": "ac2g",
                    "bp": "e",
                }
            )
    if cfg.get("gpu_annotations", True):
        names = {}
        for row in r.rows:
            if row["cat"] == "user_annotation" and re.match(
                case.get("mark", r"ProfilerStep#"), row["name"]
            ):
                names[row["step"]] = row["name"]
        for (step, stream), (a, b) in ann.items():
            if step in names:
                ev.append(
                    {
                        "ph": "X",
                        "cat": "gpu_user_annotation",
                        "name": names[step],
                        "pid": rank,
                        "tid": stream,
                        "ts": _us(a - 1 + off, q),
                        "dur": _us(b - a + 2, q),
                        "args": {},
                    }
                )
    t = _us(w0 + off, q)
    for pid, label, idx in [(r.pid, "CPU", r.pid)] + [(rank, f"GPU {rank}", 5_000_000 + rank)]:
        ev.append(
            {
                "name": "process_name",
                "ph": "M",
                "ts": t,
                "pid": pid,
                "tid": 0,
                "args": {"name": "python"},
            }
        )
        ev.append(
            {
                "name": "process_labels",
                "ph": "M",
                "ts": t,
                "pid": pid,
                "tid": 0,
                "args": {"labels": label},
            }
        )
        ev.append(
            {
                "name": "process_sort_index",
                "ph": "M",
                "ts": t,
                "pid": pid,
                "tid": 0,
                "args": {"sort_index": idx},
            }
        )
    for tid in sorted(tids):
        ev.append(
            {
                "name": "thread_name",
                "ph": "M",
                "ts": t,
                "pid": r.pid,
                "tid": tid,
                "args": {"name": f"thread {tid} ({'python' if tid == r.pid else 'pt_autograd_0'})"},
            }
        )
    for s in sorted(streams):
        ev.append(
            {
                "name": "thread_name",
                "ph": "M",
                "ts": t,
                "pid": rank,
                "tid": s,
                "args": {"name": f"stream {s} "},
            }
        )
    ev.append(
        {
            "ph": "X",
            "cat": "Trace",
            "ts": t,
            "dur": _us(w1 - w0, q),
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "name": "PyTorch Profiler (0)",
            "args": {"Op count": 0},
        }
    )
    ev.append(
        {
            "name": "Iteration Start: PyTorch Profiler",
            "ph": "i",
            "s": "g",
            "pid": "Traces",
            "tid": "Trace PyTorch Profiler",
            "ts": t,
        }
    )
    ev.append(
        {
            "name": "Record Window End",
            "ph": "i",
            "s": "g",
            "pid": "",
            "tid": "",
            "ts": _us(w1 + off, q),
        }
    )
    # kineto writes CPU rows first, then the device's; rows of a thread are ordered by start
    order = {"M": 0, "X": 1, "s": 2, "f": 2, "i": 3}
    ev.sort(key=lambda e: (order[e["ph"]], e.get("ts", 0), -e.get("dur", 0)))
    d = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": rank,
                "name": "Simulated GPU",
                "totalGlobalMem": 85_000_000_000,
                "computeMajor": 9,
                "computeMinor": 0,
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048,
                "regsPerBlock": 65536,
                "warpSize": 32,
                "sharedMemPerBlock": 49152,
                "numSms": 132,
            }
        ],
        "cupti_version": 24,
        "cuda_runtime_version": 12060,
        "cuda_driver_version": 12060,
        "with_stack": 1 if cfg.get("stacks") else 0,
        "trace_id": f"SIM{case['name']}{rank}",
        "displayTimeUnit": "ms",
    }
    if not epoch:
        d["baseTimeNanoseconds"] = base - 4_569_992_000_000_000
    if len(world.ranks) > 1 or cfg.get("world_size"):
        n = cfg.get("world_size", len(world.ranks))
        d["distributedInfo"] = {
            "backend": "nccl",
            "rank": rank,
            "world_size": n,
            "pg_count": 1,
            "pg_config": [
                {
                    "pg_name": "0",
                    "pg_desc": "default_pg",
                    "backend_config": "cuda:nccl",
                    "ranks": list(range(n)),
                }
            ],
            "nccl_version": "2.21.5",
        }
    d["traceEvents"] = ev
    d["traceName"] = f"{case['name']}_rank{rank}.json"
    post = case.get("post")
    if post is not None:
        post(d, rank)
    return d


def write_case(case, folder, truth=True):
    """Simulate, write the traces, compute the truth; returns the case's record for truth.json."""
    steps = case.get("steps", 8)
    world = simulate(case, steps=steps)
    paths = []
    for rank in case.get("write_ranks", range(len(world.ranks))):
        d = trace_of(world, rank, case)
        gz = case.get("gzip", False)
        path = f"{folder}/{case['name']}_rank{rank}.json" + (".gz" if gz else "")
        with gzip.open(path, "wt") if gz else open(path, "w") as f:
            f.write(json.dumps(d))  # as a whole: in pieces it is encoded by Python itself
        paths.append(path.rsplit("/", 1)[1])
    if not truth:
        return None
    base, gains = class_gains(case)
    rec = {
        "name": case["name"],
        "doc": case.get("doc", ""),
        "kind": "simulator",
        "traces": paths,
        "verdict": case["verdict"],
        "accept": sorted({case["verdict"], *case.get("accept", ())}),
        "period_ns": round(base),
        "period_in_trace_ns": round(
            period_of(
                world,
                case.get("trace_skip", 1 if steps < 20 else None),
                case.get("statistic", "mean"),
            )
        ),
        "class_gains_when_halved": {k: round(v, 4) for k, v in gains.items()},
        "tolerance": 0.05,
        "whatifs": [],
    }
    for k, ch in enumerate(case["changes"]):
        items = ch["change"] if isinstance(ch["change"], list) else [ch["change"]]
        rec["whatifs"].append(
            {
                "name": ch.get("name", f"w{k}"),
                "words": ch["words"],
                "change": ch["change"],
                "value_scored": ch.get("value_scored", True),
                "period_ns": round(true_period(case, items)),
            }
        )
    return rec
