"""A second simulator of hosts, streams, queues and events, from CUDA's and Kineto's documentation.

Threads are generators that yield nanoseconds or signals, so a program reads as it runs. It knows
nothing of the first simulator nor of the analysis.
"""

import gzip
import heapq
import itertools
import json
import os


class Signal:
    def __init__(self, sim):
        self.sim, self.t, self.waiters = sim, None, []

    def fire(self):
        if self.t is None:
            self.t = self.sim.now
            for g in self.waiters:
                self.sim._push(self.sim.now, g)
            self.waiters = []


class Sim:
    def __init__(self):
        self.now, self.heap, self.n = 0, [], itertools.count()

    def _push(self, t, g):
        heapq.heappush(self.heap, (t, next(self.n), g))

    def spawn(self, g):
        self._push(self.now, g)

    def run(self):
        while self.heap:
            self.now, _, g = heapq.heappop(self.heap)
            self._step(g)

    def _step(self, g):
        while True:
            try:
                y = next(g)
            except StopIteration:
                return
            if isinstance(y, Signal):
                if y.t is None:
                    y.waiters.append(g)
                    return
                continue
            y = int(y)
            if y <= 0:
                continue
            self._push(self.now + y, g)
            return


class Queue:
    """Bounded FIFO between threads (virtual)."""

    def __init__(self, sim, cap):
        self.sim, self.cap, self.items, self.put_w, self.get_w = sim, cap, [], [], []

    def put(self, x):
        while len(self.items) >= self.cap:
            w = Signal(self.sim)
            self.put_w.append(w)
            yield w
        self.items.append(x)
        if self.get_w:
            self.get_w.pop(0).fire()

    def get(self):
        while not self.items:
            w = Signal(self.sim)
            self.get_w.append(w)
            yield w
        x = self.items.pop(0)
        if self.put_w:
            self.put_w.pop(0).fire()
        return x


class Engine:
    def __init__(self, sim):
        self.sim, self.free = sim, []
        self.busy = False

    def acquire(self):
        while self.busy:
            w = Signal(self.sim)
            self.free.append(w)
            yield w
        self.busy = True

    def release(self):
        self.busy = False
        if self.free:
            self.free.pop(0).fire()


class Device:
    LAT, GAP = 6000, 1200

    def __init__(self, rank, depth=1024):
        self.rank, self.sim, self.streams, self.depth = rank, rank.sim, {}, depth
        self.engines = {"h2d": Engine(self.sim), "d2h": Engine(self.sim)}

    def stream(self, n):
        if n not in self.streams:
            self.streams[n] = Stream(self, n)
        return self.streams[n]

    def idle(self):
        return [
            x for x in (st.last for st in self.streams.values()) if x is not None and x.t is None
        ]


class Stream:
    """FIFO of items (ready_at, run generator, done signal)."""

    def __init__(self, dev, n):
        self.dev, self.n, self.sim, self.items, self.wake, self.last, self.out = (
            dev,
            n,
            dev.sim,
            [],
            None,
            None,
            0,
        )
        self.room = []
        self.sim.spawn(self._loop())

    def submit(self, run, ready_at):
        done = Signal(self.sim)
        self.items.append((run, ready_at, done))
        self.last = done
        self.out += 1
        if self.wake:
            self.wake.fire()
        return done

    def _loop(self):
        while True:
            while not self.items:
                self.wake = Signal(self.sim)
                yield self.wake
            self.wake = None
            run, ready, done = self.items.pop(0)
            if ready > self.sim.now:
                yield ready - self.sim.now
            yield from run
            self.out -= 1
            done.fire()
            if self.room:
                self.room.pop(0).fire()


class Event:
    def __init__(self):
        self.signal = None
        self.stream = None


class Rank:
    def __init__(self, sim, index=0, world=1, depth=1024, sync_rows=False):
        self.sim, self.index, self.world, self.sync_rows = sim, index, world, sync_rows
        self.pid, self.rows, self.corr, self.ext = (
            4000 + index,
            [],
            itertools.count(1),
            itertools.count(1),
        )
        self.dev = Device(self, depth)
        self.marks = []

    def row(self, cat, name, tid, t0, t1, args=None, pid=None):
        self.rows.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": self.pid if pid is None else pid,
                "tid": tid,
                "ts": t0 / 1000,
                "dur": (t1 - t0) / 1000,
                "args": args or {},
            }
        )

    def flow(self, c, tid, t0, stream, t1):
        self.rows.append(
            {
                "ph": "s",
                "id": c,
                "pid": self.pid,
                "tid": tid,
                "ts": t0 / 1000,
                "cat": "ac2g",
                "name": "ac2g",
            }
        )
        self.rows.append(
            {
                "ph": "f",
                "bp": "e",
                "id": c,
                "pid": 0,
                "tid": stream,
                "ts": t1 / 1000,
                "cat": "ac2g",
                "name": "ac2g",
            }
        )

    def save(self, path, epoch=1_700_000_000_000_000):
        meta = [
            {
                "ph": "M",
                "name": "process_name",
                "pid": self.pid,
                "tid": 0,
                "ts": 0,
                "args": {"name": "python"},
            },
            {
                "ph": "M",
                "name": "process_labels",
                "pid": self.pid,
                "tid": 0,
                "ts": 0,
                "args": {"labels": "CPU"},
            },
            {
                "ph": "M",
                "name": "process_name",
                "pid": 0,
                "tid": 0,
                "ts": 0,
                "args": {"name": "python"},
            },
            {
                "ph": "M",
                "name": "process_labels",
                "pid": 0,
                "tid": 0,
                "ts": 0,
                "args": {"labels": "GPU 0"},
            },
        ]
        doc = {
            "schemaVersion": 1,
            "deviceProperties": [
                {
                    "id": 0,
                    "name": "NVIDIA A100-SXM4-40GB",
                    "totalGlobalMem": 42505273344,
                    "computeMajor": 8,
                    "computeMinor": 0,
                    "numSms": 108,
                }
            ],
            "cuda_runtime_version": 12040,
            "baseTimeNanoseconds": epoch * 1000,
            "traceEvents": sorted(
                [x for x in self.rows if x["ts"] * 1000 <= getattr(self, "stop", 1 << 60)],
                key=lambda r: r["ts"],
            )
            + meta,
        }
        if self.world > 1:
            doc["distributedInfo"] = {
                "backend": "nccl",
                "rank": self.index,
                "world_size": self.world,
            }
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with gzip.open(path, "wt", compresslevel=1) as f:
            f.write(json.dumps(doc))  # as a whole: in pieces it is encoded by Python itself


class Thread:
    """One host thread: its generators yield time; rows are written as they end."""

    def __init__(self, rank, tid):
        self.r, self.sim, self.tid = rank, rank.sim, tid

    def work(self, ns):
        yield ns

    def range(self, name, body, cat="user_annotation"):
        t0 = self.sim.now
        yield from body
        self.r.row(cat, name, self.tid, t0, self.sim.now)

    def op(self, name, body=None, pre=2000, post=1000):
        e = next(self.r.ext)
        t0 = self.sim.now
        yield pre
        if body is not None:
            yield from body
        yield post
        self.r.row("cpu_op", name, self.tid, t0, self.sim.now, {"External id": e, "Ev Idx": e})

    def call(self, name, ns=3000, corr=None, extra=None):
        t0 = self.sim.now
        c = next(self.r.corr) if corr is None else corr
        yield ns
        self.r.row(
            "cuda_runtime",
            name,
            self.tid,
            t0,
            self.sim.now,
            {"cbid": 1, "correlation": c, **(extra or {})},
        )

    def _room(self, st):
        while st.out >= st.dev.depth:
            w = Signal(self.sim)
            st.room.append(w)
            yield w

    def launch(self, name, dur, stream=7, api="cudaLaunchKernel", ns=4000, deps=()):
        st = self.r.dev.stream(stream)
        c = next(self.r.corr)
        t0 = self.sim.now
        yield from self._room(st)
        done = st.submit(
            self._kernel(st, name, dur, c, t0, deps), max(t0, self.sim.now) + st.dev.LAT
        )
        yield ns
        self.r.row("cuda_runtime", api, self.tid, t0, self.sim.now, {"cbid": 211, "correlation": c})
        return done

    def _kernel(self, st, name, dur, c, t_launch, deps=()):
        yield from deps
        a = self.sim.now
        yield dur
        self.r.row(
            "kernel",
            name,
            st.n,
            a,
            self.sim.now,
            {
                "device": 0,
                "context": 1,
                "stream": st.n,
                "correlation": c,
                "grid": [108, 1, 1],
                "block": [256, 1, 1],
                "queued": 0,
            },
            pid=0,
        )
        self.r.flow(c, self.tid, t_launch, st.n, a)
        yield st.dev.GAP

    def kernel_op(self, op, name, dur, **k):
        yield from self.op(op, self.launch(name, dur, **k))

    def copy(self, kind, dur, stream, pageable=False, bytes_=1 << 22, deps=()):
        """cudaMemcpyAsync; from or to pageable memory it returns when the copy is done."""
        st = self.r.dev.stream(stream)
        c = next(self.r.corr)
        t0 = self.sim.now
        mem = "Pageable" if pageable else "Pinned"
        label = (
            f"Memcpy HtoD ({mem} -> Device)" if kind == "h2d" else f"Memcpy DtoH (Device -> {mem})"
        )
        ready = Signal(self.sim)

        def run():
            e = st.dev.engines[kind]
            yield from deps
            yield from e.acquire()
            a = self.sim.now
            yield dur
            self.r.row(
                "gpu_memcpy",
                label,
                st.n,
                a,
                self.sim.now,
                {
                    "device": 0,
                    "context": 1,
                    "stream": st.n,
                    "correlation": c,
                    "bytes": bytes_,
                    "memory bandwidth (GB/self)": bytes_ / dur,
                },
                pid=0,
            )
            self.r.flow(c, self.tid, t0, st.n, a)
            e.release()
            ready.fire()
            yield st.dev.GAP

        done = st.submit(run(), t0 + st.dev.LAT)
        yield 4000
        if pageable:
            yield ready
            yield 2000
        self.r.row(
            "cuda_runtime",
            "cudaMemcpyAsync",
            self.tid,
            t0,
            self.sim.now,
            {"cbid": 41, "correlation": c},
        )
        return done

    def record(self, ev, stream):
        st = self.r.dev.stream(stream)

        def nothing():
            return
            yield

        yield from self.call("cudaEventRecord", 1500)
        ev.signal = st.last
        ev.stream = stream

    def wait_event(self, ev, stream):
        st = self.r.dev.stream(stream)
        sig = ev.signal
        c = next(self.r.corr)
        yield from self.call("cudaStreamWaitEvent", 1500, c)
        if sig is not None:

            def run():
                yield sig

            st.submit(run(), self.sim.now)

    def sync(self, api, signals, extra=2000):
        t0 = self.sim.now
        c = next(self.r.corr)
        yield extra
        for x in signals:
            if x is not None:
                yield x
        yield 1500
        self.r.row("cuda_runtime", api, self.tid, t0, self.sim.now, {"cbid": 131, "correlation": c})

    def device_sync(self, api="cudaDeviceSynchronize", extra=2000):
        yield from self.sync(api, self.r.dev.idle(), extra)

    def stream_sync(self, stream):
        yield from self.sync("cudaStreamSynchronize", [self.r.dev.stream(stream).last])

    def graph(self, kernels, gap, stream=7):
        """One launch; kernels follow each other with a gap that the device takes between nodes."""
        st = self.r.dev.stream(stream)
        c = next(self.r.corr)
        t0 = self.sim.now

        def run():
            for i, (n, d) in enumerate(kernels):
                a = self.sim.now
                yield d
                self.r.row(
                    "kernel",
                    n,
                    st.n,
                    a,
                    self.sim.now,
                    {
                        "device": 0,
                        "context": 1,
                        "stream": st.n,
                        "correlation": c,
                        "graph id": 3,
                        "graph node id": 100 + i,
                    },
                    pid=0,
                )
                if i + 1 < len(kernels):
                    yield gap
            self.r.flow(c, self.tid, t0, st.n, t0 + st.dev.LAT)
            yield st.dev.GAP

        done = st.submit(run(), t0 + 9000)
        yield 8000
        self.r.row(
            "cuda_runtime",
            "cudaGraphLaunch",
            self.tid,
            t0,
            self.sim.now,
            {"cbid": 311, "correlation": c},
        )
        return done

    def host_fn(self, dur, stream):
        """cudaLaunchHostFunc: the stream stands until the function has run on a driver thread that nobody records."""
        st = self.r.dev.stream(stream)

        def run():
            yield dur

        d = st.submit(run(), self.sim.now + st.dev.LAT)
        yield from self.call("cudaLaunchHostFunc", 2500)
        return d


def period(marks, skip=4):
    m = marks[skip:]
    return (m[-1] - m[0]) / (len(m) - 1)
