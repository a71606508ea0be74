"""Another author's CPU programs, which the analysis was not developed on, by the rules of `running.py`.

python tests/trace_corpus/judge_programs.py NAME|all FOLDER

Their first scores are in `docs/analysis/critical-path.md`; since then it was mended for some of them.
"""

import asyncio
import hashlib
import os
import queue
import random
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
import torch.nn.functional as F
from running import PROGRAMS, faster, main, op, program

__all__ = ["PROGRAMS"]


def product(k, side=512):
    a = torch.full((side, side), 1 / side)
    for _ in range(int(k)):
        a = torch.mm(a, a)
    return a


def packed(size):
    """Bytes that zlib has some work with."""
    return zlib.compress(bytes(random.Random(0).choices(range(24), k=size)), 6)


# ---------------------------------------------------------------------------------- Python before a model


@program(
    ["python"],
    dict(masks=6, k=1),
    {
        "masks_half": (faster("*: fill_masks", 2), dict(masks=3)),
        "attention_5x": (op("aten::scaled_dot_product_attention", 1 / 5), dict(k=5)),
    },
)
def mask_in_python(P):
    """Attention whose mask (causal, within a segment, within a window) Python fills anew in each step."""
    n = 96
    q, k, v = (torch.randn(6, 4, n, 64) for _ in range(3))
    held = [bytearray(n * n) for _ in range(6)]
    segments = [[(i + 5 * b) // 23 for i in range(n)] for b in range(6)]

    def fill_masks(count):
        for b in range(count):
            mask, segment = held[b], segments[b]
            for r in range(n):
                at, mine = r * n, segment[r]
                for c in range(n):
                    mask[at + c] = c <= r and r - c < 40 and segment[c] == mine

    def step(i):
        fill_masks(int(P.masks))
        mask = torch.stack([torch.frombuffer(m, dtype=torch.bool).view(1, n, n) for m in held])
        for _ in range(int(P.k)):
            F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return step, lambda: 0


@program(
    ["python"],
    dict(words=240, k=1),
    {
        "extend_half": (faster("*: extend", 2), dict(words=120)),
        "model_5x": (faster("*: model", 1 / 5), dict(k=5)),
    },
)
def beam_search(P):
    """Beams as tuples in lists, every candidate scored and sorted in Python; a small model per position."""
    table = torch.randn(256, 256) * 0.05
    ws = [torch.randn(256, 256) * 0.05 for _ in range(2)]

    def model(last):
        for _ in range(int(P.k)):
            x = table[last]
            for w in ws:
                x = torch.relu(torch.mm(x, w))
            scores = torch.log_softmax(torch.mm(x, table), -1)
        return scores

    def extend(beams, rows, words):
        found, at = [], 0
        for score, tokens in beams:
            row = rows[at]
            at += 1
            for word in range(words):
                s = score + row[word]
                if word in tokens:
                    s -= 0.5
                found += [(s, at, word)]
        found.sort(reverse=True)
        return [(s, beams[b - 1][1] + [word]) for s, b, word in found[:6]]

    def step(i):
        beams = [(0.0, [b]) for b in range(6)]
        for _ in range(8):
            rows = model([tokens[-1] for _, tokens in beams]).tolist()
            beams = extend(beams, rows, int(P.words))

    return step, lambda: 0


@program(
    ["python"],
    dict(texts=160, runs=1),
    {
        "encode_half": (faster("*: encode_texts", 2), dict(texts=80)),
        "infer_5x": (faster("*: infer", 1 / 5), dict(runs=5)),
    },
)
def onnxruntime_after_python(P):
    """Texts become padded numbers in Python, then ONNX Runtime runs a small model on them."""
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h

    w = h.make_tensor("w", T.FLOAT, [128, 512], np.full(128 * 512, 1e-3, dtype="f4").tolist())
    v = h.make_tensor("v", T.FLOAT, [512, 512], np.full(512 * 512, 1e-3, dtype="f4").tolist())
    g = h.make_graph(
        [
            h.make_node("MatMul", ["x", "w"], ["a"]),
            h.make_node("Relu", ["a"], ["b"]),
            h.make_node("MatMul", ["b", "v"], ["y"]),
        ],
        "g",
        [h.make_tensor_value_info("x", T.FLOAT, [160, 128])],
        [h.make_tensor_value_info("y", T.FLOAT, [160, 512])],
        [w, v],
    )
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)])
    m.ir_version = 9
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    session = ort.InferenceSession(m.SerializeToString(), o)
    texts = [" ".join(f"word{(j * 7 + t) % 50}s" for j in range(100)) for t in range(160)]
    vocabulary = {f"word{j}": j for j in range(50)}
    held = [[0] * 128 for _ in texts]

    def encode_texts(count):
        for t in range(count):
            row, word = [], ""
            for c in texts[t]:
                if c == " ":
                    row += [vocabulary[word] if word in vocabulary else 1]
                    word = ""
                elif c != "s":
                    word += c
            held[t] = row + [0] * (128 - len(row))

    def infer(x):
        for _ in range(int(P.runs)):
            session.run(None, {"x": x})

    def step(i):
        encode_texts(int(P.texts))
        infer(np.array(held, dtype="f4"))

    return step, lambda: 0


# ---------------------------------------------------------------------------------- threads


@program(
    ["outside", "sleep and lock"],
    dict(blobs=4, k=1),
    {
        "decode_half": (faster("*: decode", 2), dict(blobs=2)),
        "mm_8x": (op("aten::mm", 1 / 8), dict(k=8)),
    },
    n=12,
    skip=5,
)
def prefetching_thread(P):
    """A thread decompresses batches into a queue of two; the step takes one and computes for a shorter time."""
    ready, stop = queue.Queue(2), []
    blob = packed(700_000)

    def decode(count):
        for _ in range(count):
            out = zlib.decompress(blob)
        return out

    def fill():
        while not stop:
            ready.put(decode(int(P.blobs)))

    threading.Thread(target=fill, daemon=True).start()

    def step(i):
        torch.frombuffer(bytearray(ready.get()[:4096]), dtype=torch.uint8).float()
        product(P.k)

    return step, lambda: stop.append(1)


@program(
    ["sleep and lock"],
    dict(hold=0.009, pause=0.002, own=0.003),
    {
        "refresh_half": (faster("*: refresh", 2), dict(hold=0.0045)),
        "own_2x": (faster("*: own", 0.5), dict(own=0.006)),
    },
    n=12,
    skip=4,
)
def cache_with_lock(P):
    """A thread refreshes a cache under its lock again and again; the step looks up under the same lock."""
    lock, stop = threading.Lock(), []
    cache = {k: torch.ones(64) for k in range(200)}

    def refresh():
        time.sleep(P.hold)
        cache[0] = torch.ones(64)

    def pause():
        time.sleep(P.pause)

    def refresher():
        while not stop:
            with lock:
                refresh()
            pause()

    threading.Thread(target=refresher, daemon=True).start()

    def look_up():
        with lock:
            return [cache[k] for k in range(0, 200, 4)]

    def own(rows):
        torch.stack(rows).sum()
        time.sleep(P.own)

    def step(i):
        own(look_up())

    return step, lambda: stop.append(1)


@program(
    ["sleep and lock", "outside"],
    dict(fetch=0.003, k=1),
    {
        "fetch_half": (faster("*: fetch", 2), dict(fetch=0.0015)),
        "mm_4x": (op("aten::mm", 1 / 4), dict(k=4)),
    },
)
def pool_map(P):
    """ThreadPoolExecutor.map over six items on two threads: each is fetched (a wait) and decompressed."""
    import numpy as np

    pool = ThreadPoolExecutor(2)
    blob = packed(60_000)
    list(pool.map(lambda _: time.sleep(0.02), range(2)))

    def fetch():
        time.sleep(P.fetch)
        return blob

    def prepare(k):
        return np.frombuffer(zlib.decompress(fetch()), dtype="u1")

    def step(i):
        torch.from_numpy(np.stack(list(pool.map(prepare, range(6))))).float()
        product(P.k)

    return step, pool.shutdown


@program(
    ["outside", "sleep and lock"],
    dict(rounds=12, ask=0.003, k=1),
    {
        "digest_half": (faster("*: digest", 2), dict(rounds=6)),
        "mm_4x": (op("aten::mm", 1 / 4), dict(k=4)),
    },
)
def asyncio_and_executor(P):
    """A coroutine sends hashing to a thread and sleeps meanwhile for a shorter time; then the step computes."""
    loop, pool = asyncio.new_event_loop(), ThreadPoolExecutor(1)
    pool.submit(time.sleep, 0.01).result()
    data = os.urandom(1 << 20)

    def digest():
        for _ in range(int(P.rounds)):
            hashlib.sha256(data)

    async def ask():
        await asyncio.sleep(P.ask)

    async def both():
        await asyncio.gather(loop.run_in_executor(pool, digest), ask())

    def step(i):
        loop.run_until_complete(both())
        product(P.k)

    return step, pool.shutdown


# ---------------------------------------------------------------------------------- training


@program(
    ["device compute"],
    dict(micros=4, clips=1),
    {
        "micros_half": (faster("*: micro_batch", 2), dict(micros=2)),
        "clip_8x": (faster("*: clip", 1 / 8), dict(clips=8)),
    },
)
def accumulated_gradients(P):
    """Four small batches forward and backward, then the gradients are clipped and SGD steps."""
    net = torch.nn.Sequential(
        *[m for _ in range(3) for m in (torch.nn.Linear(768, 768), torch.nn.ReLU())]
    )
    ws = list(net.parameters())
    sgd = torch.optim.SGD(ws, lr=1e-6)
    x = torch.randn(24, 768)

    def micro_batch():
        (net(x).square().mean() / 4).backward()

    def micro_batches():
        for _ in range(int(P.micros)):
            micro_batch()

    def clip():
        for _ in range(int(P.clips)):
            torch.nn.utils.clip_grad_norm_(ws, 1e-3)

    def step(i):
        sgd.zero_grad(set_to_none=False)
        micro_batches()
        clip()
        sgd.step()

    return step, lambda: 0


@program(
    ["host framework"],
    dict(optimized=1, backward=1),
    {
        "optimizer_none": ([{"phase": "optimizer", "speedup": "inf"}], dict(optimized=0)),
        "backward_none": ([{"phase": "backward", "speedup": "inf"}], dict(backward=0)),
    },
    stack=False,
)
def parameter_groups(P):
    """SGD with momentum and decay over eight groups of small parameters, each with a rate of its own."""
    ws = [torch.nn.Parameter(torch.randn(24, 24) * 0.1) for _ in range(120)]
    sgd = torch.optim.SGD(
        [
            {"params": ws[g::8], "lr": 1e-6 * (g + 1), "weight_decay": 0.01 if g % 2 else 0.0}
            for g in range(8)
        ],
        momentum=0.9,
        foreach=False,
    )
    x = torch.ones(8, 24)

    def step(i):
        for g, group in enumerate(sgd.param_groups):
            group["lr"] = 1e-6 * (g + 1) / (i + 1)
        y = x
        for w in ws:
            y = torch.tanh(torch.mm(y, w))
        loss = y.sum()
        if P.backward:
            sgd.zero_grad(set_to_none=False)
            loss.backward()
        if P.optimized:
            sgd.step()

    return step, lambda: 0


# ---------------------------------------------------------------------------------- computing


@program(
    ["device compute", "device memory"],
    dict(features=4, mlp=1),
    {
        "bags_half": (op("aten::embedding_bag", 2), dict(features=2)),
        "linear_3x": (op("aten::linear", 1 / 3), dict(mlp=3)),
    },
    stack=False,
)
def bags_and_mlp(P):
    """A recommender: four bags of sparse features, then a network on all of them."""
    bags = [torch.nn.EmbeddingBag(100000, 64, mode="sum") for _ in range(4)]
    first, second = torch.nn.Linear(256, 256), torch.nn.Linear(256, 128)
    ids = torch.randint(0, 100000, (4, 1536, 32))
    parts = [torch.zeros(1536, 64) for _ in range(4)]

    def step(i):
        with torch.no_grad():
            for f in range(int(P.features)):
                parts[f] = bags[f](ids[f])
            x = torch.cat(parts, 1)
            for _ in range(int(P.mlp)):
                y = first(x)
            y = torch.relu(y)
            for _ in range(int(P.mlp)):
                z = second(y)
            torch.sigmoid(z)

    return step, lambda: 0


@program(
    [
        "device compute",
        "device memory",
    ],  # an image alone counts as channels last: it is copied before it is resized
    dict(images=4, convs=1),
    {
        "resize_half": (op("aten::upsample_bilinear2d", 2), dict(images=2)),
        "conv_3x": (op("aten::conv2d", 1 / 3), dict(convs=3)),
    },
    stack=False,
)
def resize_and_convolve(P):
    """Images are resized one by one, then convolved together."""
    photos = [torch.rand(1, 3, 480, 640) for _ in range(4)]
    resized = [torch.zeros(1, 3, 256, 256) for _ in range(4)]
    first = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1)
    second = torch.nn.Conv2d(16, 32, 3, stride=2, padding=1)

    def step(i):
        with torch.no_grad():
            for k in range(int(P.images)):
                resized[k] = F.interpolate(photos[k], size=(256, 256), mode="bilinear")
            x = torch.cat(resized)
            for _ in range(int(P.convs)):
                y = first(x)
            y = torch.relu(y)
            for _ in range(int(P.convs)):
                second(y)

    return step, lambda: 0


@program(
    ["device compute", "device memory"],
    dict(norms=6, gelu=1),
    {
        "norms_half": (op("aten::layer_norm", 2), dict(norms=3)),
        "gelu_none": (op("aten::gelu"), dict(gelu=0)),
    },
    stack=False,
)
def norm_and_gelu(P):
    """Six times layer norm, gelu and the residual, on activations of medium size."""
    norms = [torch.nn.LayerNorm(768) for _ in range(6)]
    x = torch.randn(1600, 768)

    def step(i):
        with torch.no_grad():
            y = x
            for k in range(6):
                z = norms[k](y) if k < P.norms else y
                if P.gelu:
                    z = F.gelu(z)
                y = y + z

    return step, lambda: 0


@program(
    ["device compute"],
    dict(k=4, m=4),
    {
        "solves_half": (op("aten::linalg_solve", 2), dict(k=2)),
        "bmm_4x": (op("aten::bmm", 1 / 4), dict(m=16)),
    },
    stack=False,
)
def small_solves(P):
    """Batches of small systems of equations, as in a Kalman filter, and batched products."""
    a = torch.randn(600, 16, 16) * 0.1 + torch.eye(16)
    b = torch.randn(600, 16, 4)

    def step(i):
        for _ in range(int(P.k)):
            torch.linalg.solve(a, b)
        for _ in range(int(P.m)):
            torch.bmm(a, a)

    return step, lambda: 0


@program(
    ["device compute", "device memory"],
    dict(adds=4, gathered=1),
    {
        "adds_half": (op("aten::index_add_", 2), dict(adds=2)),
        "gather_none": (op("aten::index_select"), dict(gathered=0)),
    },
    stack=False,
)
def graph_aggregation(P):
    """A graph network's layer: neighbours' rows are gathered and added up at each node, for four relations."""
    nodes, edges = 4000, 50000
    h = torch.randn(nodes, 32)
    src, dst = (torch.randint(0, nodes, (4, edges)) for _ in range(2))
    message = h[src[0]]  # one for all: as near in the cache as rows just gathered
    total = torch.zeros(nodes, 32)

    def step(i):
        total.zero_()
        for r in range(4):
            rows = torch.index_select(h, 0, src[r]) if P.gathered else message
            if r < P.adds:
                total.index_add_(0, dst[r], rows)
        torch.relu(total)

    return step, lambda: 0


if __name__ == "__main__":
    main("judge_programs", __file__)
