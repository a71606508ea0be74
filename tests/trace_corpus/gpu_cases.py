"""Simulated GPU programs with their true verdict class, steady period and the true period of planted changes.

``python gpu_cases.py [FOLDER] [NAME ...]`` writes the traces and ``truth.json`` (default folder: traces/ beside this
file).  A case's `verdict` is declared here and checked against the simulator: the class whose work, made twice as
fast, shortens the period most (stragglers: what making the ranks equal gives) must be among the accepted ones.
"""

import json
import os
import sys

from trace_corpus.simulator import MS, US, CudaEvent, Loader, write_case

CASES = []


def add(name, verdict, body, changes, doc, accept=(), mark=None, pre=None, every=None, **kw):
    def main(h):
        if pre is not None:
            yield from pre(h)
        for i in range(h.w.steps):
            h.step_begin(i, mark(i) if mark else None)
            yield from body(h, i)
            yield from h.step_end()
            if every is not None:
                yield from every(h, i)

    CASES.append(
        {
            "name": name,
            "verdict": verdict,
            "accept": accept,
            "main": main,
            "doc": doc,
            "seed": len(CASES) + 11,
            "changes": [
                {"name": f"w{k}", "words": w, "change": c} for k, (w, c) in enumerate(changes)
            ],
            **kw,
        }
    )


def scale(target, match, factor=0.5, **kw):
    return {"kind": "scale", "target": target, "match": match, "factor": factor, **kw}


def remove(target, match, **kw):
    return {"kind": "remove", "target": target, "match": match, **kw}


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
ELT = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)"
ATTN = "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, false>"
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>(float)"
)
DGRAD = "sm90_xmma_dgrad_implicit_gemm_bf16_nhwc_tilesize128x128x64_cudnn"


# 1 asynchronous training, six steps, nothing synchronises: the trace's host part is long over when the device ends
def _async(h, i):
    for k in range(4):
        yield from h.launch(GEMM, 1700 * US, op="aten::mm", op_ns=180 * US)
        yield from h.launch(ELT, 300 * US, op="aten::gelu", op_ns=120 * US)
    yield from h.backward(
        lambda t: t.launch(
            DGRAD, 2100 * US, op="autograd::engine::evaluate_function: MmBackward0", op_ns=400 * US
        )
    )


add(
    "async_training",
    "device_compute",
    _async,
    [
        ("gemm kernels twice as fast", scale("kernel", "xmma_gemm")),
        ("gelu kernels twice as fast", scale("kernel", "Gelu")),
        ("the host operator aten::mm twice as fast (no gain)", scale("host_op", "aten::mm")),
        (
            "gemm four times and dgrad four times as fast",
            [scale("kernel", "xmma_gemm", 0.25), scale("kernel", "dgrad", 0.25)],
        ),
    ],
    "asynchronous training: host 2 ms, device 10.1 ms a step, six steps, no synchronisation",
    steps=6,
)


def _item(h, i):
    for k in range(6):
        yield from h.launch(GEMM, 700 * US, op="aten::addmm", op_ns=90 * US)
    yield from h.item()
    for k in range(10):
        yield from h.op("aten::detach", 60 * US)


add(
    "loss_item",
    "device_compute",
    _item,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("aten::detach twice as fast", scale("host_op", "aten::detach")),
        (
            "aten::addmm's host time twice as fast (hidden behind the device)",
            scale("host_op", "aten::addmm"),
        ),
    ],
    "loss.item() each step: the host waits, then prepares while the device idles",
)


def _sync_removed(h, i):
    for k in range(5):
        yield from h.launch(GEMM, 500 * US, op="aten::mm", op_ns=60 * US)
    yield from h.sync_device()
    yield from h.py("train.py(61): update_metrics", 1700 * US)


add(
    "device_sync_each_step",
    "device_compute",
    _sync_removed,
    [
        ("cudaDeviceSynchronize removed", remove("sync", "cudaDeviceSynchronize")),
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("update_metrics twice as fast", scale("python", "update_metrics")),
    ],
    "torch.cuda.synchronize() each step, then 1.7 ms of Python",
    config={"stacks": True, "sync_events": True},
)


def _poll(h, i):
    for k in range(5):
        yield from h.launch(ATTN, 800 * US, op="aten::scaled_dot_product_attention", op_ns=70 * US)
    e = CudaEvent()
    yield from h.record(e)
    yield from h.poll(e, 20 * US)
    yield from h.op("aten::copy_", 300 * US)


add(
    "event_polling",
    "device_compute",
    _poll,
    [
        ("attention kernels twice as fast", scale("kernel", "flash_fwd")),
        ("attention kernels four times as fast", scale("kernel", "flash_fwd", 0.25)),
        ("aten::copy_ twice as fast", scale("host_op", "aten::copy_")),
    ],
    "the host polls an event with cudaEventQuery until the device is ready",
)


def _bp(h, i):
    for k in range(150):
        yield from h.launch(
            GEMM if k % 3 == 0 else ELT,
            26 * US if k % 3 == 0 else 15 * US,
            op="aten::mm" if k % 3 == 0 else "aten::gelu",
            op_ns=3 * US,
        )


add(
    "back_pressure",
    "device_compute",
    _bp,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("all kernels 1.5 times as fast", scale("kernel", ".", 2 / 3)),
        ("aten::gelu's host time twice as fast (no gain)", scale("host_op", "aten::gelu")),
        ("all kernels ten times as fast: the host is the bound then", scale("kernel", ".", 0.1)),
    ],
    "launch queue full in steady state: most launches block until a slot is free",
    config={"queue_depth": 256},
    steps=8,
    record=(4, 7),
    long_steps=24,
)


def _graph(h, i):
    yield from h.py("decode.py(12): sample", 200 * US)
    yield from h.graph([(GEMM, 22 * US, 1400), (ELT, 5 * US, 1300), (NORM, 4 * US, 1300)] * 40)
    yield from h.item(pinned=True)


add(
    "cuda_graph",
    "device_compute",
    _graph,
    [
        ("gemm nodes twice as fast", scale("kernel", "gemm")),
        ("gemm and norm nodes twice as fast", scale("kernel", "gemm|layer_norm")),
        ("sample() twice as fast", scale("python", "sample")),
    ],
    "one cudaGraphLaunch of 120 kernels with gaps of 1.3 us, a token is read back each step",
    config={"stacks": True},
    long_steps=30,
)


def _small(h, i):
    for k in range(60):
        yield from h.launch(ELT, 3 * US, op="aten::add", op_ns=14 * US)
        yield from h.launch(NORM, 4 * US, op="aten::layer_norm", op_ns=24 * US)


add(
    "host_bound_small_kernels",
    "host_framework",
    _small,
    [
        ("aten::layer_norm's host time halved", scale("host_op", "aten::layer_norm")),
        ("every operator's host time halved", scale("host_op", "aten::")),
        ("all kernels twice as fast (no gain)", scale("kernel", ".")),
        ("cudaLaunchKernel twice as cheap", scale("runtime", "cudaLaunchKernel")),
    ],
    "120 small kernels a step, the host cannot launch fast enough",
    long_steps=24,
)


def _python(h, i):
    yield from h.py("model.py(88): build_mask", 2600 * US)
    yield from h.py(
        "model.py(120): forward",
        300 * US,
        body=h.launch(GEMM, 900 * US, op="aten::mm", op_ns=40 * US),
    )
    yield from h.py("model.py(140): postprocess", 700 * US)


add(
    "python_bound",
    "python",
    _python,
    [
        ("build_mask twice as fast", scale("python", "build_mask")),
        ("postprocess removed", remove("python", "postprocess")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
    ],
    "slow Python functions, the device idles",
    config={"stacks": True},
)


def _ddp(h, i):
    yield from h.op("aten::zero_", 200 * US)
    for k in range(3):
        yield from h.launch(GEMM, 900 * US, op="aten::mm", op_ns=70 * US)
    yield from h.collective(1400 * US)
    yield from h.comm_wait()
    yield from h.launch(ADAM, 300 * US, op="aten::_fused_adam_", op_ns=100 * US)


add(
    "straggler_slow_device",
    "straggler",
    _ddp,
    [
        ("rank 1's gemm as fast as the others'", scale("kernel", "gemm", 1 / 4, rank=1)),
        ("rank 0's gemm twice as fast (no gain)", scale("kernel", "gemm", rank=0)),
        ("the transfer twice as fast", scale("collective", "AllReduce")),
    ],
    "two ranks, rank 1's gemm kernels are four times slower; rank 0 waits in the all-reduce",
    ranks=2,
    slow=[{"rank": 1, "target": "kernel", "match": "gemm", "factor": 4}],
)


def _ddp_sleep(h, i):
    if h.r.rank == 2:
        yield from h.sleep(14 * MS)
    yield from h.launch(GEMM, 2500 * US, op="aten::mm", op_ns=70 * US)
    yield from h.collective(900 * US)
    yield from h.comm_wait()
    yield from h.launch(ADAM, 300 * US, op="aten::_fused_adam_", op_ns=100 * US)
    yield from h.sync_stream(7)


add(
    "straggler_slow_host",
    "straggler",
    _ddp_sleep,
    [
        ("rank 2 sleeps half as long", scale("python", "sleep", rank=2)),
        ("rank 2 does not sleep", remove("python", "sleep", rank=2)),
        ("gemm twice as fast on all ranks", scale("kernel", "gemm")),
    ],
    "three ranks, rank 2 sleeps 14 ms each step before its work",
    accept=("sleep_or_lock",),
    ranks=3,
    config={"stacks": True},
    clock_skew={1: 40_000, 2: -25_000},
)


def _comm(h, i):
    for k in range(4):
        yield from h.launch(GEMM, 800 * US, op="aten::mm", op_ns=70 * US)
    yield from h.collective(9 * MS)
    yield from h.comm_wait()
    yield from h.launch(ADAM, 400 * US, op="aten::_fused_adam_", op_ns=100 * US)


add(
    "communication_bound",
    "communication",
    _comm,
    [
        ("the all-reduce's transfer twice as fast", scale("collective", "AllReduce")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "two equal ranks, the transfer of the all-reduce is not hidden",
    ranks=2,
)


def _bucket(h, i):
    for k in range(3):
        yield from h.launch(GEMM, 1500 * US, op="aten::mm", op_ns=50 * US)

    def bwd(t):
        for k in range(4):
            yield from t.launch(
                DGRAD,
                1800 * US,
                op="autograd::engine::evaluate_function: ConvolutionBackward0",
                op_ns=60 * US,
            )
            yield from t.collective(1200 * US)

    yield from h.backward(bwd)
    yield from h.comm_wait()
    yield from h.launch(ADAM, 400 * US, op="aten::_fused_adam_", op_ns=100 * US)


add(
    "overlapped_communication",
    "device_compute",
    _bucket,
    [
        ("dgrad twice as fast", scale("kernel", "dgrad")),
        ("transfers twice as fast (only the last bucket shows)", scale("collective", "AllReduce")),
        ("dgrad eight times as fast: communication is the bound", scale("kernel", "dgrad", 0.125)),
    ],
    "gradient buckets are reduced beside backward",
    ranks=2,
    config={"sync_events": True},
)


def _prefetch(h, i):
    yield from h.memcpy("HtoD", 6500 * US, stream=21, nbytes=78_000_000)
    e = CudaEvent()
    yield from h.record(e, 21)
    yield from h.stream_wait(7, e)
    for k in range(3):
        yield from h.launch(GEMM, 1300 * US, op="aten::mm", op_ns=80 * US)


add(
    "copy_overlap_copy_bound",
    "device_memory",
    _prefetch,
    [
        ("copies to the device twice as fast", scale("memcpy", "HtoD")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
        ("copies 1.3 times as fast", scale("memcpy", "HtoD", 1 / 1.3)),
    ],
    "pinned copies on their own stream overlap with the last step's kernels; the copies take longer",
    config={"sync_events": True},
)

add(
    "copy_overlap_compute_bound",
    "device_compute",
    lambda h, i: _prefetch2(h, i),
    [
        ("copies to the device twice as fast (no gain)", scale("memcpy", "HtoD")),
        ("gemm twice as fast: the copies are the bound then", scale("kernel", "gemm")),
    ],
    "as above, the kernels take longer",
    config={"sync_events": False},
)


def _prefetch2(h, i):
    yield from h.memcpy("HtoD", 3 * MS, stream=21, nbytes=36_000_000)
    e = CudaEvent()
    yield from h.record(e, 21)
    yield from h.stream_wait(7, e)
    for k in range(4):
        yield from h.launch(GEMM, 1300 * US, op="aten::mm", op_ns=80 * US)


def _pageable(h, i):
    yield from h.memcpy("HtoD", 5 * MS, host="Pageable", nbytes=20_000_000)
    for k in range(3):
        yield from h.launch(GEMM, 600 * US, op="aten::mm", op_ns=50 * US)


add(
    "pageable_copies",
    "device_memory",
    _pageable,
    [
        ("copies to the device twice as fast", scale("memcpy", "HtoD")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "pageable copies synchronise the stream first and block the host: copy and kernels are serial",
)


def _streams(h, i):
    e, f, g = CudaEvent(), CudaEvent(), CudaEvent()
    yield from h.record(e, 7)
    yield from h.stream_wait(13, e)
    yield from h.stream_wait(17, e)
    for k in range(4):
        yield from h.launch(
            "tower_a_" + GEMM, 900 * US, stream=13, sm=0.3, op="aten::mm", op_ns=50 * US
        )
        yield from h.launch(
            "tower_b_" + GEMM, 600 * US, stream=17, sm=0.3, op="aten::mm", op_ns=50 * US
        )
    yield from h.record(f, 13)
    yield from h.record(g, 17)
    yield from h.stream_wait(7, f)
    yield from h.stream_wait(7, g)
    yield from h.launch("join_" + ELT, 500 * US, stream=7, sm=0.3, op="aten::cat", op_ns=50 * US)


add(
    "two_towers_two_streams",
    "device_compute",
    _streams,
    [
        ("tower a twice as fast: tower b is longer then", scale("kernel", "tower_a")),
        ("tower b twice as fast (no gain)", scale("kernel", "tower_b")),
        ("the join twice as fast", scale("kernel", "join_")),
    ],
    "fork to two streams and join by events, kernels small enough to run side by side",
    config={"sync_events": True},
)


def _loader(h, i):
    if not hasattr(h, "ld"):
        h.ld = Loader(h.r, 2, 18 * MS)
    yield from h.loader_next(h.ld)
    yield from h.memcpy("HtoD", 300 * US)
    for k in range(3):
        yield from h.launch(GEMM, 900 * US, op="aten::mm", op_ns=70 * US)


add(
    "loader_starves_device",
    "data_loading",
    _loader,
    [
        ("the workers' loading twice as fast", scale("data_loader", "DataLoader")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
        ("the workers' loading 1.5 times as fast", scale("data_loader", "DataLoader", 2 / 3)),
    ],
    "two DataLoader workers of 18 ms an item; the device needs 3 ms",
    long_steps=62,
)


def _inproc(h, i):
    h.begin("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation")
    for k in range(4):
        yield h.w.cost(h.r.rank, "data_loader", "DataLoader item", 1500 * US, "data_loading")
        yield from h.op("aten::stack", 40 * US, "data_loading")
    h.end()
    yield from h.memcpy("HtoD", 300 * US, host="Pageable")
    for k in range(3):
        yield from h.launch(GEMM, 700 * US, op="aten::mm", op_ns=70 * US)


add(
    "loader_main_thread",
    "data_loading",
    _inproc,
    [
        ("loading twice as fast", scale("data_loader", "DataLoader")),
        ("gemm twice as fast (hidden behind the loading)", scale("kernel", "gemm")),
    ],
    "num_workers=0: the main thread loads 6 ms a step",
    accept=("python",),
)


def _free(h, i):
    for k in range(4):
        yield from h.launch(GEMM, 900 * US, op="aten::mm", op_ns=60 * US)
    yield from h.free()
    for k in range(12):
        yield from h.op("aten::view", 90 * US)


add(
    "cuda_free_each_step",
    "device_compute",
    _free,
    [
        ("no cudaFree", remove("sync", "cudaFree")),
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("aten::view twice as fast", scale("host_op", "aten::view")),
    ],
    "cudaFree synchronises implicitly each step",
)


def _malloc(h, i):
    yield from h.malloc(400 * US)
    for k in range(4):
        yield from h.launch(GEMM, 1100 * US, op="aten::mm", op_ns=60 * US)


add(
    "cuda_malloc_each_step",
    "device_compute",
    _malloc,
    [
        ("no cudaMalloc", remove("sync", "cudaMalloc")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "the caching allocator misses each step: cudaMalloc synchronises",
)


def _legacy(h, i):
    yield from h.launch(
        "encode_" + GEMM, 1500 * US, stream=13, sm=0.3, op="ext::encode", op_ns=40 * US
    )
    yield from h.launch("reduce_" + ELT, 700 * US, stream=7, sm=0.3, op="aten::sum", op_ns=40 * US)
    yield from h.launch(
        "decode_" + GEMM, 2000 * US, stream=14, sm=0.3, op="ext::decode", op_ns=40 * US
    )


add(
    "legacy_default_stream",
    "device_compute",
    _legacy,
    [
        ("reduce on the default stream twice as fast", scale("kernel", "reduce_")),
        ("decode twice as fast: encode beside it is longer then", scale("kernel", "decode_")),
        ("encode twice as fast (no gain)", scale("kernel", "encode_")),
    ],
    "an extension's blocking streams are ordered by the legacy default stream",
    config={"legacy_default": True, "blocking_streams": (13, 14)},
)


def _hostfn(h, i):
    yield from h.launch(GEMM, 1500 * US, op="aten::mm", op_ns=60 * US)
    yield from h.host_func(7, 4 * MS)
    yield from h.launch(ELT, 500 * US, op="aten::gelu", op_ns=60 * US)


add(
    "host_function",
    "outside",
    _hostfn,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("gelu twice as fast", scale("kernel", "Gelu")),
    ],
    "cudaLaunchHostFunc: the stream waits 4 ms for a function on a thread that is not profiled",
)


def _sleep(h, i):
    yield from h.launch(GEMM, 2 * MS, op="aten::mm", op_ns=60 * US)
    yield from h.py("server.py(31): throttle", 30 * US, body=h.sleep(9 * MS))


add(
    "sleeping_host",
    "sleep_or_lock",
    _sleep,
    [
        ("the sleep halved", scale("python", "built-in function sleep")),
        ("the sleep removed", remove("python", "built-in function sleep")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
    ],
    "the program sleeps 9 ms each step",
    config={"stacks": True},
)


def _io(h, i):
    for k in range(2):
        yield from h.launch(GEMM, 1 * MS, op="aten::mm", op_ns=60 * US)
    yield from h.item()
    yield from h.py(
        "checkpoint.py(20): save",
        200 * US,
        body=h.py("<built-in method write of _io.BufferedWriter object at 0x7f2a10>", 5 * MS, "io"),
    )
    yield from h.py("<built-in function fsync>", 3 * MS, "io")


add(
    "writes_each_step",
    "io",
    _io,
    [
        ("fsync twice as fast", scale("python", "fsync")),
        ("write twice as fast", scale("python", "built-in method write")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "a checkpoint is written and synced each step",
    config={"stacks": True},
)


def _outlier(h, i):
    if i in (3, 17, 40):
        yield from h.overhead(80 * MS)
    for k in range(4):
        yield from h.launch(GEMM, 1200 * US, op="aten::mm", op_ns=60 * US)
    yield from h.sync_device()


add(
    "profiler_outlier",
    "device_compute",
    _outlier,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("cudaDeviceSynchronize removed", remove("sync", "cudaDeviceSynchronize")),
    ],
    "one step holds 80 ms of the profiler's own buffer handling; the median period is meant",
    statistic="median",
    config={"stacks": False},
)


def _profiler(h, i):
    for k in range(6):
        yield from h.launch(GEMM, 250 * US, op="aten::mm", op_ns=60 * US)
        yield from h.overhead(
            1 * MS, "CUPTI Resource Flush" if k % 2 else "Activity Buffer Request"
        )


add(
    "profiler_bound",
    "profiler",
    _profiler,
    [
        ("without the profiler's overhead", remove("overhead", ".")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
    ],
    "the profiler's overhead rows are three quarters of each step",
)


def _warm_body(h, i):
    if i == 0:
        yield from h.py("warmup.py(3): init_cudnn", 9_000 * MS)
        yield from h.malloc(700 * MS)
    if i == 1:
        yield from h.py("warmup.py(9): autotune", 400 * MS)
    for k in range(5):
        yield from h.launch(GEMM, 800 * US, op="aten::convolution", op_ns=70 * US)


add(
    "warm_up_first",
    "device_compute",
    _warm_body,
    [
        ("convolutions' gemm twice as fast", scale("kernel", "gemm")),
        ("operators' host time halved (no gain)", scale("host_op", "aten::")),
    ],
    "the first step holds 9.7 s of initialisation, the second 0.4 s; the steady period is 4 ms",
    config={"stacks": True},
    steps=9,
)


def _overlap_ranges(h, i):
    yield from _item(h, i)


def _post_overlap(d, rank):
    """Ranges of asynchronous tasks on one thread that overlap partly (record_function begun and ended apart)."""
    rows = [e for e in d["traceEvents"] if e.get("cat") == "user_annotation"]
    for k, e in enumerate(rows[:-1]):
        d["traceEvents"].append(
            {
                **e,
                "name": f"request {k}",
                "ts": round(e["ts"] + e["dur"] * 0.4, 3),
                "dur": round(e["dur"] * 0.9, 3),
                "args": {"External id": 900_000 + k},
            }
        )


add(
    "overlapping_ranges",
    "device_compute",
    _overlap_ranges,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("aten::detach twice as fast", scale("host_op", "aten::detach")),
    ],
    "as loss_item, with further ranges that overlap the steps partly",
    post=_post_overlap,
)


def _post_absurd(d, rank):
    ops = [e for e in d["traceEvents"] if e.get("cat") == "cpu_op"]
    d["traceEvents"].append({**ops[3], "ts": 0, "dur": 3.0})


add(
    "one_absurd_time_stamp",
    "device_compute",
    _async,
    [
        ("gemm kernels twice as fast", scale("kernel", "xmma_gemm")),
        ("aten::mm's host time twice as fast (no gain)", scale("host_op", "aten::mm")),
    ],
    "as async_training with one operator stamped 0",
    post=_post_absurd,
    steps=8,
)


def _bursts(h, i):
    for part in range(3):
        for k in range(2):
            yield from h.launch(GEMM, 400 * US, op="aten::mm", op_ns=250 * US)

        def bwd(t, part=part):
            for k in range(3):
                yield from t.launch(
                    DGRAD,
                    60 * US,
                    op="autograd::engine::evaluate_function: MmBackward0",
                    op_ns=500 * US,
                )
                if k == 1:
                    yield from t.op("torch::autograd::AccumulateGrad", 300 * US)

        yield from h.backward(bwd)
        yield from h.busy(350 * US)


add(
    "backward_in_bursts",
    "host_framework",
    _bursts,
    [
        ("MmBackward0's host time halved", scale("host_op", "MmBackward0")),
        ("aten::mm's host time halved", scale("host_op", "^aten::mm")),
        ("dgrad twice as fast (no gain)", scale("kernel", "dgrad")),
    ],
    "three backward calls a step on the autograd thread, more than 100 us apart; main waits for each",
    accept=("python",),
)


add(
    "launched_before_window",
    "device_compute",
    _async,
    [
        ("gemm kernels twice as fast", scale("kernel", "xmma_gemm")),
        ("dgrad twice as fast", scale("kernel", "dgrad")),
    ],
    "recording begins at step 5 while the device still works at earlier steps",
    steps=11,
    record=(5, 10),
)


def _ranges(h, i):
    for k in range(3):
        yield from h.launch(GEMM, 1500 * US, op="aten::mm", op_ns=70 * US)
    yield from h.item()


add(
    "own_ranges",
    "device_compute",
    _ranges,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("host time of aten::mm halved", scale("host_op", "aten::mm")),
    ],
    "no ProfilerStep: the steps are ranges named train_step",
    mark=lambda i: "train_step",
)
CASES[-1]["mark"] = "train_step"


def _vendor(h, i):
    yield from _async(h, i)


def _post_vendor(d, rank):
    d["traceEvents"] = [e for e in d["traceEvents"] if e.get("cat") not in ("ac2g", "cuda_runtime")]


add(
    "no_launch_records",
    "device_compute",
    _vendor,
    [
        ("gemm kernels twice as fast", scale("kernel", "xmma_gemm")),
        ("gelu kernels twice as fast", scale("kernel", "Gelu")),
    ],
    "another vendor's device: works are not joined to launches",
    config={"no_correlation": True},
    post=_post_vendor,
)


def _one_rank(h, i):
    for k in range(2):
        yield from h.launch(GEMM, 900 * US, op="aten::mm", op_ns=70 * US)
    yield from h.collective(1200 * US)
    yield from h.comm_wait()


add(
    "one_of_four_ranks",
    "straggler",
    _one_rank,
    [
        ("no gain from the host: aten::mm halved", scale("host_op", "aten::mm")),
        ("no gain from cheaper launches", scale("runtime", "cudaLaunchKernel")),
        (
            "rank 0's gemm twice as fast (cannot be known from this rank alone: only the interval counts)",
            scale("kernel", "gemm", rank=0),
        ),
    ],
    "only rank 0's trace of four: its all-reduce waits 8 ms for rank 2, which is not recorded; the trace alone cannot "
    "tell waiting from transfer",
    accept=("outside", "communication"),
    ranks=4,
    write_ranks=[0],
    slow=[{"rank": 2, "target": "kernel", "match": "gemm", "factor": 5.4}],
)
CASES[-1]["changes"][2]["value_scored"] = False


def _decode(h, i):
    for k in range(40):
        yield from h.launch(GEMM, 6 * US, op="aten::linear", op_ns=22 * US)
    yield from h.py(
        "<built-in method multinomial of type object at 0x7fd1>",
        60 * US,
        "host_framework",
        body=h.launch(ELT, 8 * US, op="aten::multinomial", op_ns=30 * US),
    )
    yield from h.item()
    yield from h.py("generate.py(77): stopping_criteria", 300 * US)


add(
    "token_by_token",
    "host_framework",
    _decode,
    [
        ("aten::linear's host time halved", scale("host_op", "aten::linear")),
        ("stopping_criteria removed", remove("python", "stopping_criteria")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "generate-like loop: forty small linears, then item()",
    config={"stacks": True},
    long_steps=30,
)


# Of here on: a second author's, who had not read the analysis either; the first four were wrong before


def _ring(h, i):
    if not hasattr(h, "ring"):
        h.ring = [None, None]
    if h.ring[i % 2] is not None:
        yield from h.sync_event(h.ring[i % 2])
    for k in range(5):
        yield from h.launch(GEMM, 700 * US, op="aten::mm", op_ns=80 * US)
    h.ring[i % 2] = CudaEvent()
    yield from h.record(h.ring[i % 2], 7)
    yield from h.py("train.py(5): log", 900 * US)


add(
    "ring_of_events",
    "device_compute",
    _ring,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("log removed (no gain)", remove("python", "log")),
    ],
    "the host waits for the event of two steps ago; no cuda_sync rows say which that is",
    config={"stacks": True},
    steps=10,
)


def _free_on_idle_device(h, i):
    yield from h.launch(GEMM, 200 * US, op="aten::mm", op_ns=60 * US)
    yield from h.py("model.py(1): think", 1500 * US)
    yield from h.free(3 * MS)
    yield from h.launch(GEMM, 400 * US, op="aten::mm", op_ns=60 * US)


add(
    "cuda_free_on_idle_device",
    "host_framework",
    _free_on_idle_device,
    [
        ("no cudaFree", remove("sync", "cudaFree")),
        ("think removed: cudaFree has to wait then", remove("python", "think")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "cudaFree takes 3 ms although the device is idle",
    config={"stacks": True},
)


def _alternating(h, i):
    ns = 3 * MS if h.r.rank == i % 2 else 800 * US
    yield from h.launch(GEMM, ns, op="aten::mm", op_ns=70 * US)
    yield from h.collective(700 * US)
    yield from h.comm_wait()
    yield from h.launch(ADAM, 250 * US, op="aten::_fused_adam_", op_ns=60 * US)
    yield from h.item()


add(
    "alternating_straggler",
    "device_compute",
    _alternating,
    [
        ("gemm twice as fast", scale("kernel", "gemm")),
        ("transfers twice as fast", scale("collective", "AllReduce")),
    ],
    "the slow rank changes from step to step; no cuda_sync rows",
    accept=("straggler",),
    ranks=2,
    steps=10,
)


def _no_launches(h, i):
    yield from h.py("model.py(2): tokenise", 5 * MS)
    yield from h.launch(GEMM, 900 * US, op="aten::mm", op_ns=60 * US)
    yield from h.item()


add(
    "no_launch_records_host_bound",
    "python",
    _no_launches,
    [
        ("tokenise twice as fast", scale("python", "tokenise")),
        ("gemm twice as fast", scale("kernel", "gemm")),
    ],
    "another vendor's device without launches: nothing in the trace joins the device to Python",
    config={"no_correlation": True, "stacks": True},
    post=_post_vendor,
)
for one in CASES[-1]["changes"]:
    one["value_scored"] = False


def _two_graphs(h, i):
    yield from h.graph([(GEMM, 30 * US, 1200), (ELT, 6 * US, 1200)] * 30, graph_id=3)
    yield from h.graph([(ATTN, 50 * US, 1500)] * 10, graph_id=4)
    yield from h.memcpy("DtoH", 20 * US, host="Pinned")
    yield from h.sync_stream(7)
    yield from h.py("decode.py(3): detokenize", 700 * US)


add(
    "two_graphs",
    "device_compute",
    _two_graphs,
    [
        ("gemm nodes twice as fast", scale("kernel", "gemm")),
        ("attention nodes twice as fast", scale("kernel", "flash")),
        ("detokenize removed", remove("python", "detok")),
    ],
    "two graphs of other shapes a step, then Python",
    config={"stacks": True},
    long_steps=30,
)


def _copy_pipeline(h, i):
    e, f = CudaEvent(), CudaEvent()
    yield from h.memcpy("HtoD", 2 * MS, stream=21)
    yield from h.record(e, 21)
    yield from h.stream_wait(7, e)
    yield from h.launch(GEMM, 2600 * US, op="aten::mm", op_ns=50 * US)
    yield from h.record(f, 7)
    yield from h.stream_wait(22, f)
    yield from h.memcpy("DtoH", 3300 * US, stream=22)


add(
    "three_stage_copy_pipeline",
    "device_memory",
    _copy_pipeline,
    [
        ("downloads twice as fast: compute is the bound", scale("memcpy", "DtoH")),
        ("uploads twice as fast (no gain)", scale("memcpy", "HtoD")),
        ("gemm twice as fast (no gain)", scale("kernel", "gemm")),
    ],
    "upload, compute and download on three streams",
    config={"sync_events": True},
    steps=10,
)


def run(cases, folder, names=(), truth=True):
    os.makedirs(folder, exist_ok=True)
    out, bad = [], []
    for c in cases:
        if names and c["name"] not in names:
            continue
        rec = write_case(c, folder, truth)
        if rec is None:
            continue
        g = rec["class_gains_when_halved"]
        top = max(g, key=g.get)
        ok = top in rec["accept"] or "straggler" in rec["accept"] and g["straggler"] > 0.4
        off = rec["period_in_trace_ns"] / rec["period_ns"] - 1
        if not ok or abs(off) > 0.03:
            print(f"  trace's own period is off by {off:+.3f}")
        if not ok:
            bad.append(c["name"])
        print(
            f"{'' if ok else 'DISAGREES '}{c['name']}: {rec['verdict']} {rec['period_ns'] / 1e6:.3f} ms; "
            f"halved: "
            + ", ".join(
                f"{k} {v:.2f}" for k, v in sorted(g.items(), key=lambda x: -x[1]) if v > 0.01
            )
            + "; "
            + ", ".join(f"{w['period_ns'] / 1e6:.3f}" for w in rec["whatifs"])
        )
        out.append(rec)
    if not names and truth:
        with open(f"{folder}/truth.json", "w") as f:
            json.dump(out, f, indent=1)
    return bad


if __name__ == "__main__":
    only_traces = "--traces-only" in sys.argv  # truth.json stays as it is
    sys.argv = [a for a in sys.argv if a != "--traces-only"]
    where = (
        sys.argv[1]
        if len(sys.argv) > 1
        else os.path.join(os.path.dirname(os.path.abspath(__file__)), "traces")
    )
    bad = run(CASES, where, sys.argv[2:], not only_traces)
    print(len(CASES), "cases; disagree:", bad or "none")
    sys.exit(bool(bad))
