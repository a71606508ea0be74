"""Programs of the second simulator with planted bottlenecks, written before the analysis was read.

`PROGRAMS[name]` is a builder, which gives the ranks' recordings and the true period, the verdicts
that are right, and changes: what-ifs with the parameters of the program that was really changed.
"""

import itertools

from trace_corpus.streams import Event, Queue, Rank, Signal, Sim, Thread, period

MS = 1_000_000
US = 1000
PROGRAMS = {}


def program(classes, changes):
    def deco(f):
        PROGRAMS[f.__name__] = (f, classes, changes)
        return f

    return deco


def steps(th, n, body, marks, own=None):
    r = th.r
    for i in range(n):
        yield from th.range(f"ProfilerStep#{i + 5}", body(i))
        pend = [
            st.last
            for k, st in r.dev.streams.items()
            if st.last is not None and (own is None or k in own)
        ]
        marks.append(("pending", th.sim.now, pend))
    yield from marks[-1][2]
    r.stop = r.sim.now


def finish(marks):
    return [max([t] + [p.t for p in ps if p.t is not None]) for _, t, ps in marks]


@program(
    ["device compute"],
    {
        "gemm2x": ([{"kernel": "gemm_main", "speedup": 2}], {"gemm": 2 * MS}),
        "prep_slow": ([{"kernel": "augment", "speedup": 0.2}], {"aug": 10 * MS}),
        "gemm10x": ([{"kernel": "gemm_main", "speedup": 10}], {"gemm": 0.4 * MS}),
    },
)
def two_launchers(gemm=4 * MS, aug=2 * MS, n=14):
    """A thread copies and augments batches on stream 20 and hands them over by a queue; the main thread trains on 7."""
    sim = Sim()
    r = Rank(sim)
    main, pre = Thread(r, 4000), Thread(r, 4011)
    q = Queue(sim, 2)
    marks = []

    def prefetch():
        for i in range(n + 9):
            yield 200 * US
            yield from pre.op("aten::copy_", pre.copy("h2d", 500 * US, 20))
            yield from pre.kernel_op("aten::augment", "augment", aug, stream=20)
            ev = Event()
            yield from pre.record(ev, 20)
            yield from q.put(ev)

    def body(i):
        ev = yield from q.get()
        yield from main.wait_event(ev, 7)
        yield from main.kernel_op("aten::mm", "gemm_main", gemm)
        yield from main.kernel_op("aten::relu", "relu_k", 300 * US)
        yield from main.op("aten::item", main.copy("d2h", 3 * US, 7, pageable=True, bytes_=4))
        yield from main.stream_sync(7)
        yield 150 * US

    sim.spawn(prefetch())
    sim.spawn(steps(main, n, body, marks, (7,)))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["data loading", "outside"],
    {
        "kernels3x_slower": ([{"kernel": "conv*", "speedup": 1 / 3}], {"conv": 6 * MS}),
        "kernels2x": ([{"kernel": "conv*", "speedup": 2}], {"conv": 1 * MS}),
        "kernels6x_slower": ([{"kernel": "conv*", "speedup": 1 / 6}], {"conv": 12 * MS}),
    },
)
def three_loader_workers(conv=2 * MS, item=24 * MS, workers=3, n=20):
    """Three worker processes need 24 ms a batch each, prefetch factor 2: a batch each 8 ms; the step needs 4.5."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []
    ready = {}
    allowed = {}
    for i in range(400):
        ready[i] = Signal(sim)
        allowed[i] = Signal(sim)
    for i in range(2 * workers):
        allowed[i].fire()

    def worker(w):
        for i in range(w, n + 2 * workers, workers):
            yield allowed[i]
            yield item
            ready[i].fire()

    for w in range(workers):
        sim.spawn(worker(w))

    def nxt(i):
        yield ready[i]
        yield 150 * US
        allowed[i + 2 * workers].fire()

    def body(i):
        yield from main.range(
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", nxt(i)
        )
        yield from main.op("aten::copy_", main.copy("h2d", 700 * US, 7))
        yield from main.kernel_op("aten::convolution", "conv_fwd", conv)
        yield from main.kernel_op("aten::convolution_backward", "conv_bwd", conv / 2)
        yield from main.op("aten::item", main.copy("d2h", 3 * US, 7, pageable=True, bytes_=4))
        yield from main.stream_sync(7)
        yield 300 * US

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks), 7)


@program(
    ["device memory"],
    {
        "copy2x": ([{"name": "Memcpy HtoD*", "speedup": 2}], {"copy": 3 * MS}),
        "kernel2x": ([{"kernel": "layer*", "speedup": 2}], {"kern": 2 * MS}),
        "copy8x": ([{"name": "Memcpy HtoD*", "speedup": 8}], {"copy": 0.75 * MS}),
    },
)
def copy_overlap(copy=6 * MS, kern=4 * MS, n=12):
    """Double buffered: copies of 6 ms on stream 14, kernels of 4 ms on 7, two buffers guarded by events, all asynchronous."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []
    free = [Event(), Event()]

    def body(i):
        b = i % 2
        yield 300 * US
        yield from main.wait_event(free[b], 14)
        yield from main.op("aten::copy_", main.copy("h2d", copy, 14))
        full = Event()
        yield from main.record(full, 14)
        yield from main.wait_event(full, 7)
        yield from main.kernel_op("aten::mm", "layer_gemm", kern)
        free[b] = Event()
        yield from main.record(free[b], 7)

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["device compute"],
    {
        "kernel2x": ([{"kernel": "attn", "speedup": 2}], {"kern": 2.5 * MS}),
        "host_slow": ([{"name": "decode", "speedup": 0.25}], {"host": 4 * MS}),
    },
)
def polling(kern=5 * MS, host=1 * MS, n=10):
    """The host polls cudaEventQuery every 20 us until the step's event is there; then 1 ms of its own."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield from main.kernel_op("aten::attn", "attn", kern)
        ev = Event()
        yield from main.record(ev, 7)
        while True:
            yield from main.call("cudaEventQuery", 2000)
            if ev.signal.t is not None:
                break
            yield 18 * US
        yield from main.range("decode", main.work(host))

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["device compute", "host framework"],
    {
        "kernels2x": ([{"kernel": "g_*", "speedup": 2}], {"kern": 20 * US}),
        "host_10x_slower": ([{"name": "sample", "speedup": 0.1}], {"host": 5 * MS}),
        "host2x": ([{"name": "sample", "speedup": 2}], {"host": 0.25 * MS}),
    },
)
def graph_gaps(kern=40 * US, gap=6 * US, host=0.5 * MS, n=12):
    """A CUDA graph of 60 kernels with 6 us between its nodes; the host samples 0.5 ms after a stream sync."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield from main.graph([(f"g_{j % 5}", kern) for j in range(60)], gap)
        yield from main.stream_sync(7)
        yield from main.range("sample", main.work(host))

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


class Collective:
    def __init__(s, sim, world):
        s.sim, s.world, s.n, s.go = sim, world, 0, Signal(sim)

    def arrive(s):
        s.n += 1
        if s.n == s.world:
            s.go.fire()
        yield s.go


@program(
    ["waiting for a straggler", "device compute", "straggler"],
    {
        "rank1_gemm_fast": ([{"kernel": "gemm*", "rank": 1, "speedup": 2}], {"slow": 4 * MS}),
        "all_gemm2x": ([{"kernel": "gemm*", "speedup": 2}], {"slow": 4 * MS, "fast": 2 * MS}),
    },
)
def nccl_straggler(fast=4 * MS, slow=8 * MS, comm=1 * MS, n=10):
    """Two ranks; rank 1 computes 8 ms, rank 0 4 ms; the all-reduce on stream 20 ends 1 ms after both are there."""
    sim = Sim()
    colls = {}
    ranks = [Rank(sim, k, 2) for k in range(2)]
    marks = [[], []]

    def rank(r, k):
        th = Thread(r, 4000 + k)

        def nccl(st, c, t0, key):
            a = sim.now
            col = colls.setdefault(key, Collective(sim, 2))
            yield from col.arrive()
            yield comm
            r.row(
                "kernel",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                st.n,
                a,
                sim.now,
                {
                    "device": 0,
                    "context": 1,
                    "stream": st.n,
                    "correlation": c,
                    "Collective name": "allreduce",
                    "In msg nelems": 1 << 20,
                    "Out msg nelems": 1 << 20,
                    "Group size": 2,
                    "dtype": "Float",
                    "Process Group Name": "0",
                    "Process Group Description": "default_pg",
                    "Process Group Ranks": "[0, 1]",
                },
                pid=0,
            )
            r.flow(c, th.tid, t0, st.n, a)
            yield st.dev.GAP

        def body(i):
            yield 200 * US
            yield from th.kernel_op("aten::mm", "gemm_f", slow if k else fast)
            ev = Event()
            yield from th.record(ev, 7)
            yield from th.wait_event(ev, 20)
            st = r.dev.stream(20)
            c = next(r.corr)
            t0 = sim.now
            e = next(r.ext)
            yield 3000
            st.submit(nccl(st, c, sim.now, i), sim.now + 6000)
            t1 = sim.now
            yield 5000
            r.row(
                "cuda_runtime",
                "cudaLaunchKernelExC",
                th.tid,
                t1,
                sim.now,
                {"cbid": 430, "correlation": c},
            )
            yield 2000
            r.row("cpu_op", "c10d::allreduce_", th.tid, t0, sim.now, {"External id": e})
            ev = Event()
            yield from th.record(ev, 20)
            yield from th.wait_event(ev, 7)
            yield from th.kernel_op("aten::add_", "adam", 500 * US)
            yield from th.stream_sync(7)

        yield from steps(th, n, body, marks[k])

    for k, r in enumerate(ranks):
        sim.spawn(rank(r, k))
    sim.run()
    return ranks, period(finish(marks[0]))


@program(
    ["device compute"],
    {
        "kernel2x": ([{"kernel": "fft*", "speedup": 2}], {"kern": 2 * MS}),
        "host2x": ([{"name": "plan", "speedup": 2}], {"host": 0.5 * MS}),
    },
)
def malloc_free(kern=4 * MS, host=1 * MS, n=10):
    """Each step allocates and frees with the driver: cudaFree waits for everything that the device has."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield from main.range("plan", main.work(host))
        yield from main.call("cudaMalloc", 80 * US)
        yield from main.kernel_op("aten::fft", "fft_c2c", kern)
        yield from main.device_sync("cudaFree", 30 * US)
        yield 100 * US

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["device compute"],
    {
        "a2x": ([{"kernel": "branch_a", "speedup": 2}], {"a": 1.5 * MS}),
        "default2x": ([{"kernel": "legacy", "speedup": 2}], {"d": 1 * MS}),
        "b3x_slower": ([{"kernel": "branch_b", "speedup": 1 / 3}], {"b": 6 * MS}),
    },
)
def legacy_default(a=3 * MS, b=2 * MS, d=2 * MS, n=10):
    """Blocking streams 13 and 14 work beside each other; a kernel on the legacy stream 0 waits for both and holds both."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []
    last = [None]

    def body(i):
        yield 100 * US
        deps = [last[0]] if last[0] else []
        x = yield from main.op("my::a", _ret(main.launch("branch_a", a, 13, deps=deps)))
        yield from main.op("my::b", _ret(main.launch("branch_b", b, 14, deps=deps)))
        deps = [main.r.dev.stream(13).last, main.r.dev.stream(14).last]
        yield from main.op("my::legacy", _ret(main.launch("legacy", d, 0, deps=deps)))
        last[0] = main.r.dev.stream(0).last

    def _ret(g):
        yield from g

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["outside"],
    {
        "kernel2x": ([{"kernel": "infer", "speedup": 2}], {"kern": 1 * MS}),
        "kernel4x_slower": ([{"kernel": "infer", "speedup": 0.25}], {"kern": 8 * MS}),
    },
)
def host_function(kern=2 * MS, fn=5 * MS, n=10):
    """After each kernel a host function of 5 ms on the same stream (cudaLaunchHostFunc), then a copy and a synchronisation."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield from main.kernel_op("aten::mm", "infer", kern)
        yield from main.host_fn(fn, 7)
        yield from main.op("aten::copy_", main.copy("d2h", 200 * US, 7))
        yield from main.stream_sync(7)
        yield 200 * US

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["device memory"],
    {
        "copy2x": ([{"name": "Memcpy HtoD*", "speedup": 2}], {"copy": 3 * MS}),
        "kernel4x": ([{"kernel": "net", "speedup": 4}], {"kern": 0.5 * MS}),
    },
)
def pageable(copy=6 * MS, kern=2 * MS, n=10):
    """cudaMemcpyAsync from pageable memory returns when it is done; the kernel of the step before overlaps nothing of it
    (same stream), the host has 0.4 ms of its own."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield 400 * US
        yield from main.op("aten::copy_", main.copy("h2d", copy, 7, pageable=True))
        yield from main.kernel_op("aten::mm", "net", kern)

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["device compute"],
    {
        "kernels2x": ([{"kernel": "small", "speedup": 2}], {"kern": 5 * US}),
        "host3x_slower": ([{"host": 1 / 3}], {"pre": 9000, "lns": 12000, "post": 3000}),
    },
)
def full_queue(kern=10 * US, pre=3000, lns=4000, post=1000, n=12):
    """800 kernels of 10 us a step; the host needs 8 us each; a queue of 256: launches block in the steady state."""
    sim = Sim()
    r = Rank(sim, depth=256)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        for j in range(800):
            yield from main.op("aten::add", main.launch("small", kern, ns=lns), pre=pre, post=post)

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["host framework", "python"],
    {
        "host2x": ([{"host": 2}], {"h": 0.5}),
        "kernels2x": ([{"kernel": "k*", "speedup": 2}], {"kern": 10 * US}),
    },
)
def two_threads_one_stream(h=1.0, kern=20 * US, n=10):
    """Two threads launch 150 small kernels each on streams of their own and meet at the step's end; the host is slower."""
    sim = Sim()
    r = Rank(sim)
    main, two = Thread(r, 4000), Thread(r, 4007)
    marks = []
    go, back = Queue(sim, 1), Queue(sim, 1)

    def other():
        for i in range(n):
            yield from go.get()
            for j in range(150):
                yield from two.op(
                    "aten::mul",
                    two.launch("k_b", kern, 21, ns=8000 * h),
                    pre=20000 * h,
                    post=4000 * h,
                )
            yield from two.stream_sync(21)
            yield from back.put(i)

    def body(i):
        yield from go.put(i)
        for j in range(150):
            yield from main.op(
                "aten::add", main.launch("k_a", kern, 7, ns=8000 * h), pre=25000 * h, post=4000 * h
            )
        yield from main.stream_sync(7)
        yield from back.get()
        yield 50 * US * h

    sim.spawn(other())
    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["data loading", "outside"],
    {
        "kernel2x": ([{"kernel": "train", "speedup": 2}], {"kern": 2 * MS}),
        "kernel4x_slower": ([{"kernel": "train", "speedup": 0.25}], {"kern": 16 * MS}),
    },
)
def pin_thread_loader(kern=4 * MS, item=26 * MS, workers=4, n=24):
    """Four workers of 26 ms, a pinning thread of 1 ms a batch (neither recorded), asynchronous training without synchronisation."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []
    ready = {i: Signal(sim) for i in range(400)}
    pinned = {i: Signal(sim) for i in range(400)}
    allowed = {i: Signal(sim) for i in range(400)}
    for i in range(2 * workers):
        allowed[i].fire()

    def worker(w):
        for i in range(w, n + 2 * workers, workers):
            yield allowed[i]
            yield item * (1 + 0.1 * (w % 2))
            ready[i].fire()

    def pin():
        for i in range(n + 8):
            yield ready[i]
            yield 1 * MS
            pinned[i].fire()

    for w in range(workers):
        sim.spawn(worker(w))
    sim.spawn(pin())

    def nxt(i):
        yield pinned[i]
        yield 100 * US
        allowed[i + 2 * workers].fire()

    def body(i):
        yield from main.range(
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", nxt(i)
        )
        yield from main.op("aten::copy_", main.copy("h2d", 500 * US, 7))
        yield from main.kernel_op("aten::mm", "train", kern)
        yield 200 * US

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks), 7)


@program(
    ["device compute"],
    {
        "fwd2x": ([{"kernel": "fwd", "speedup": 2}], {"f": 20 * US}),
        "bwd2x": ([{"kernel": "bwd", "speedup": 2}], {"b": 40 * US}),
        "host5x_slower": ([{"host": 0.2}], {"h": 5.0}),
    },
)
def train_backward_thread(f=40 * US, b=80 * US, h=1.0, n=10):
    """Forward on the main thread, backward on the autograd thread in two bursts, asynchronous, one .item() a step."""
    sim = Sim()
    r = Rank(sim)
    main, bw = Thread(r, 4000), Thread(r, 4003)
    marks = []
    go, back = Queue(sim, 1), Queue(sim, 1)
    seq = itertools.count(1)

    def grad():
        for i in range(n * 2):
            yield from go.get()
            for j in range(40):
                e = next(r.ext)
                t0 = sim.now
                yield 4000 * h
                yield from bw.launch("bwd", b, 7, ns=5000 * h)
                yield 2000 * h
                r.row(
                    "cpu_op",
                    "autograd::engine::evaluate_function: MmBackward0",
                    4003,
                    t0,
                    sim.now,
                    {"External id": e, "Fwd thread id": 1, "Sequence number": j},
                )
            yield from back.put(i)

    def body(i):
        for j in range(80):
            yield from main.op(
                "aten::mm", main.launch("fwd", f, 7, ns=5000 * h), pre=6000 * h, post=2000 * h
            )

        def backward():
            yield from go.put(i)
            yield from back.get()

        yield from main.op("autograd::backward_1", backward())
        yield 300 * US * h

        def backward2():
            yield from go.put(i)
            yield from back.get()

        yield from main.op("autograd::backward_2", backward2())
        yield from main.op("aten::item", main.copy("d2h", 3 * US, 7, pageable=True, bytes_=4))
        yield from main.stream_sync(7)

    sim.spawn(grad())
    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["communication"],
    {
        "comm2x": ([{"kernel": "nccl*", "speedup": 2}], {"comm": 3 * MS}),
        "gemm2x": ([{"kernel": "gemm*", "speedup": 2}], {"gemm": 1 * MS}),
        "comm6x": ([{"kernel": "nccl*", "speedup": 6}], {"comm": 1 * MS}),
    },
)
def ddp_buckets(gemm=2 * MS, comm=6 * MS, n=10):
    """Two equal ranks; three buckets overlap backward kernels; communication is longer."""
    sim = Sim()
    colls = {}
    ranks = [Rank(sim, k, 2) for k in range(2)]
    marks = [[], []]

    def rank(r, k):
        th = Thread(r, 4000 + k)

        def nccl(st, c, t0, key):
            a = sim.now
            col = colls.setdefault(key, Collective(sim, 2))
            yield from col.arrive()
            yield comm / 3
            r.row(
                "kernel",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                st.n,
                a,
                sim.now,
                {
                    "device": 0,
                    "context": 1,
                    "stream": st.n,
                    "correlation": c,
                    "Collective name": "allreduce",
                    "In msg nelems": 1 << 20,
                    "Group size": 2,
                    "dtype": "Float",
                    "Process Group Name": "0",
                },
                pid=0,
            )
            r.flow(c, th.tid, t0, st.n, a)
            yield st.dev.GAP

        def body(i):
            yield (100 + 20 * k) * US
            for j in range(3):
                yield from th.kernel_op("aten::mm", "gemm_b", gemm / 3 * 2)
                ev = Event()
                yield from th.record(ev, 7)
                yield from th.wait_event(ev, 20)
                st = r.dev.stream(20)
                c = next(r.corr)
                t1 = sim.now
                st.submit(nccl(st, c, t1, (i, j)), sim.now + 6000)
                yield 5000
                r.row(
                    "cuda_runtime",
                    "cudaLaunchKernelExC",
                    th.tid,
                    t1,
                    sim.now,
                    {"cbid": 430, "correlation": c},
                )
            ev = Event()
            yield from th.record(ev, 20)
            yield from th.wait_event(ev, 7)
            yield from th.kernel_op("aten::add_", "adam", 400 * US)

        yield from steps(th, n, body, marks[k])

    for k, r in enumerate(ranks):
        sim.spawn(rank(r, k))
    sim.run()
    return ranks, period(finish(marks[0]))


@program(
    ["device compute"],
    {
        "aug2x": ([{"kernel": "resize_k", "speedup": 2}], {"aug": 2.5 * MS}),
        "gemm2x": ([{"kernel": "gemm_k", "speedup": 2}], {"gemm": 1.5 * MS}),
        "gemm3x_slower": ([{"kernel": "gemm_k", "speedup": 1 / 3}], {"gemm": 9 * MS}),
    },
)
def prefetch_thread_gpu(aug=5 * MS, gemm=3 * MS, n=14):
    """The thread that augments is the slower one; the main thread waits in a queue that nobody records."""
    sim = Sim()
    r = Rank(sim)
    main, pre = Thread(r, 4000), Thread(r, 4021)
    q = Queue(sim, 3)
    marks = []

    def prefetch():
        for i in range(n + 9):
            yield 100 * US
            yield from pre.op("aten::copy_", pre.copy("h2d", 800 * US, 22))
            yield from pre.kernel_op("aten::resize", "resize_k", aug, stream=22)
            yield from pre.stream_sync(22)
            yield from q.put(1)

    def body(i):
        yield from q.get()
        yield from main.kernel_op("aten::mm", "gemm_k", gemm)
        yield from main.op("aten::item", main.copy("d2h", 3 * US, 7, pageable=True, bytes_=4))
        yield from main.stream_sync(7)
        yield 200 * US

    sim.spawn(prefetch())
    sim.spawn(steps(main, n, body, marks, (7,)))
    sim.run()
    return [r], period(finish(marks))


@program(
    ["data loading", "outside"],
    {
        "k2x": ([{"kernel": "train*", "speedup": 2}], {"kern": 1 * MS}),
        "k4x_slower": ([{"kernel": "train*", "speedup": 0.25}], {"kern": 8 * MS}),
    },
)
def one_worker_gpu(kern=2 * MS, item=9 * MS, n=20):
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []
    ready = {i: Signal(sim) for i in range(99)}
    allowed = {i: Signal(sim) for i in range(99)}
    for i in range(2):
        allowed[i].fire()

    def worker():
        for i in range(60):
            yield allowed[i]
            yield item * (1 + 0.2 * (i % 2))
            ready[i].fire()

    sim.spawn(worker())

    def nxt(i):
        yield ready[i]
        yield 80 * US
        allowed[i + 2].fire()

    def body(i):
        yield from main.range(
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", nxt(i)
        )
        yield from main.op("aten::copy_", main.copy("h2d", 400 * US, 7))
        yield from main.kernel_op("aten::mm", "train", kern)
        yield from main.kernel_op("aten::mm_backward", "train_b", 2 * kern)
        yield 300 * US

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks), 5)


@program(
    ["device compute"],
    {
        "side4x": ([{"kernel": "side", "speedup": 4}], {"a": 1 * MS}),
        "side2x": ([{"kernel": "side", "speedup": 2}], {"a": 2 * MS}),
    },
)
def wait_stream(a=4 * MS, b=1 * MS, n=10):
    """side.wait_stream(main) and main.wait_stream(side) around side work that overlaps other main work."""
    sim = Sim()
    r = Rank(sim)
    main = Thread(r, 4000)
    marks = []

    def body(i):
        yield 150 * US
        yield from main.kernel_op("aten::mm", "first", b)
        e = Event()
        yield from main.record(e, 7)
        yield from main.wait_event(e, 15)
        yield from main.kernel_op("aten::conv", "side", a, stream=15)
        yield from main.kernel_op("aten::mm", "beside", 2 * b)
        e = Event()
        yield from main.record(e, 15)
        yield from main.wait_event(e, 7)
        yield from main.kernel_op("aten::mm", "last", b)
        yield from main.stream_sync(7)

    sim.spawn(steps(main, n, body, marks))
    sim.run()
    return [r], period(finish(marks))
