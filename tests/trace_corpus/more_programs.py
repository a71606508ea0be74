"""More CPU programs with planted bottlenecks, by the rules of `running.py`.

python tests/trace_corpus/more_programs.py NAME|all FOLDER
"""

import collections
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from running import PROGRAMS, faster, main, op, program
from torch.profiler import record_function

__all__ = ["PROGRAMS"]

X = torch.ones(64, 64)


def small(k=10):
    y = X
    for _ in range(k):
        y = torch.relu(y + 1)
    return y


def product(k, side=512):
    a = torch.full((side, side), 1 / side)
    for _ in range(int(k)):
        a = torch.mm(a, a)
    return a


# ---------------------------------------------------------------------------------- waiting, in one process


@program(
    ["sleep and lock"],
    dict(wait=0.006, own=0.005),
    {
        "wait_half": (faster("*: backoff", 2), dict(wait=0.003)),
        "own_4x": (faster("*: own", 0.25), dict(own=0.020)),
    },
    mark="iteration",
)
def retry_backoff(P):
    def backoff(k):
        time.sleep(P.wait)

    def own():
        time.sleep(P.own)

    def attempt(k):
        small()
        return k == 2

    def step(i):
        for k in range(3):
            if attempt(k):
                break
            backoff(k)
        own()

    return step, lambda: 0


@program(
    ["sleep and lock", "outside"],
    dict(make=0.012, use=0.005),
    {
        "make_half": (faster("*: make_item", 2), dict(make=0.006)),
        "use_3x": (faster("*: use_item", 1 / 3), dict(use=0.015)),
        "use_half": (faster("*: use_item", 2), dict(use=0.0025)),
    },
    unseen=True,
)
def condition_wait(P):
    cond, items, stop = threading.Condition(), collections.deque(), []

    def make_item():
        time.sleep(P.make)

    def use_item():
        time.sleep(P.use)

    def producer():
        while not stop:
            make_item()
            with cond:
                while len(items) >= 2 and not stop:
                    cond.wait()
                items.append(1)
                cond.notify_all()

    t = threading.Thread(target=producer, daemon=True)
    t.start()

    def step(i):
        with cond:
            while not items:
                cond.wait()
            items.popleft()
            cond.notify_all()
        small()
        use_item()

    def close():
        stop.append(1)
        with cond:
            cond.notify_all()
        t.join()

    return step, close


@program(
    ["sleep and lock", "outside"],
    dict(hold=0.008, own=0.005),
    {
        # A thread that starts during the recording has no rows: only that it is joined is recorded.
        "hold_half": (faster("/: (hold_it|join)$/", 2), dict(hold=0.004)),
        "own_4x": (faster("*: own", 0.25), dict(own=0.020)),
    },
)
def semaphore_threads(P):
    """Each step starts two threads that hold one semaphore by turns, and joins them."""
    one = threading.Semaphore(1)

    def hold_it():
        time.sleep(P.hold)

    def worker():
        with one:
            hold_it()

    def own():
        time.sleep(P.own)

    def step(i):
        ts = [threading.Thread(target=worker) for _ in range(2)]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        small()
        own()

    return step, lambda: 0


@program(
    ["sleep and lock", "outside"],
    dict(task=0.006, own=0.004),
    {
        "task_half": (faster("*: handle", 2), dict(task=0.003)),
        "own_5x": (faster("*: own", 0.2), dict(own=0.020)),
    },
)
def workers_and_results(P):
    """Two workers take four tasks from a queue and put results into another, which the step collects."""
    tasks, results = queue.Queue(), queue.Queue()

    def handle(task):
        time.sleep(P.task)
        return task

    def worker():
        while True:
            task = tasks.get()
            if task is None:
                return
            results.put(handle(task))

    ts = [threading.Thread(target=worker, daemon=True) for _ in range(2)]
    for t in ts:
        t.start()

    def own():
        time.sleep(P.own)

    def step(i):
        for k in range(4):
            tasks.put(k + 1)
        for _ in range(4):
            results.get()
        small()
        own()

    def close():
        for _ in ts:
            tasks.put(None)

    return step, close


@program(
    ["sleep and lock", "outside"],
    dict(upload=0.020, k=2),
    {
        "upload_half": (faster("*: upload", 2), dict(upload=0.010)),
        "upload_2x": (faster("*: upload", 0.5), dict(upload=0.040)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
    unseen=True,
)
def asynchronous_upload(P):
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)

    def upload(y):
        time.sleep(P.upload)

    def step(i):
        later = pool.submit(upload, X)
        product(P.k)
        later.result()

    return step, pool.shutdown


@program(
    ["sleep and lock", "outside"],
    dict(work=0.020, own=0.004),
    {
        "work_half": (faster("*: background", 2), dict(work=0.010)),
        "own_4x": (faster("*: own", 0.25), dict(own=0.016)),
    },
    unseen=True,
)
def polled_flag(P):
    """Another thread works and sets a flag, for which the step polls with short sleeps."""
    go, done, stop = threading.Event(), threading.Event(), []

    def background():
        time.sleep(P.work)

    def run():
        while True:
            go.wait()
            go.clear()
            if stop:
                return
            background()
            done.set()

    t = threading.Thread(target=run, daemon=True)
    t.start()

    def own():
        time.sleep(P.own)

    def step(i):
        done.clear()
        go.set()
        while not done.is_set():
            time.sleep(0.001)
        small()
        own()

    def close():
        stop.append(1)
        go.set()
        t.join()

    return step, close


@program(
    ["sleep and lock"],
    dict(make=0.010, use=0.006),
    {
        "make_half": (faster("*: make", 2), dict(make=0.005)),
        "use_3x": (faster("*: use", 1 / 3), dict(use=0.018)),
    },
)
def asyncio_producer(P):
    """A coroutine that makes items and one that uses them, joined by a queue of one."""
    import asyncio

    loop = asyncio.new_event_loop()
    items = asyncio.Queue(1)

    async def make():
        await asyncio.sleep(P.make)

    async def use():
        await asyncio.sleep(P.use)

    async def producer():
        while True:
            await make()
            await items.put(1)

    async def once():
        await items.get()
        small()
        await use()

    task = loop.create_task(producer())

    def step(i):
        loop.run_until_complete(once())

    return step, task.cancel


# ---------------------------------------------------------------------------------- Python


@program(
    ["python"],
    dict(pairs=18, k=1),
    {
        "half": (faster("*: distance", 2), dict(pairs=9)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
)
def edit_distance(P):
    a, b = [i * 7 % 11 for i in range(90)], [i * 5 % 11 for i in range(90)]

    def distance(a, b):
        before = list(range(len(b) + 1))
        for i, x in enumerate(a):
            row = [i + 1]
            for j, y in enumerate(b):
                best = before[j] + (x != y)
                if before[j + 1] + 1 < best:
                    best = before[j + 1] + 1
                if row[j] + 1 < best:
                    best = row[j] + 1
                row += [best]
            before = row
        return before[-1]

    def step(i):
        for _ in range(int(P.pairs)):
            distance(a, b)
        product(P.k)

    return step, lambda: 0


@program(
    ["python", "outside"],
    dict(n=240, k=1),
    {
        "half": (faster("*: clean", 2), dict(n=120)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
    unseen=True,
)
def json_and_regex(P):
    line = json.dumps(
        {"text": "The  quick brown fox <b>jumps</b> over 12 lazy dogs. " * 30, "id": 7}
    )
    tags, space, number = re.compile(r"<[^>]+>"), re.compile(r"\s+"), re.compile(r"\d+")

    def clean(lines):
        out = []
        for one in lines:
            text = json.loads(one)["text"].lower()
            out.append(number.sub("#", space.sub(" ", tags.sub("", text))).split())
        return out

    def step(i):
        clean([line] * int(P.n))
        product(P.k)

    return step, lambda: 0


@program(
    ["data loading"],
    dict(rounds=4, k=1),
    {
        "collate_half": (faster("*: collate", 2), dict(rounds=2)),
        "loading_half": ([{"class": "data_loading", "speedup": 2}], dict(rounds=2)),
        "mm_6x": (op("aten::mm", 1 / 6), dict(k=6)),
    },
)
def collating_loader(P):
    """A loader without workers whose collate function pads lists in Python."""

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 1000000

        def __getitem__(self, i):
            return i

    def collate(batch):
        for _ in range(int(P.rounds)):
            rows = []
            for i in batch:
                row = []
                for w in range(100):
                    row += [(i * 31 + w * 17) % 1000]
                rows += [row + [0] * (128 - len(row))]
            found = torch.tensor(rows)
        return found

    it = iter(torch.utils.data.DataLoader(Texts(), batch_size=160, collate_fn=collate))

    def step(i):
        next(it)
        product(P.k)

    return step, lambda: 0


@program(
    ["device compute"],
    dict(item=0.0005, k=8),
    {
        "mm_half": (op("aten::mm", 2), dict(k=4)),
        "mm_2x": (op("aten::mm", 0.5), dict(k=16)),
    },
    unseen=True,
    n=12,
    skip=6,
)
def loader_is_fast(P):
    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 1000000

        def __getitem__(self, i):
            time.sleep(P.item)
            return torch.zeros(64)

    it = iter(torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2))

    def step(i):
        next(it)
        product(P.k)

    return step, it._shutdown_workers


@program(
    ["python", "outside"],
    dict(images=24, k=1),
    {
        "half": (faster("*: augment", 2), dict(images=12)),
        "mm_8x": (op("aten::mm", 1 / 8), dict(k=8)),
    },
)
def numpy_augmentation(P):
    import numpy as np

    image = np.ones((224, 224, 3), dtype="f4")

    def augment(image):
        flipped = np.ascontiguousarray(image[:, ::-1])
        shifted = np.roll(flipped, 3, axis=0)
        return (shifted - shifted.mean()) / (shifted.std() + 1e-6)

    def step(i):
        for _ in range(int(P.images)):
            augment(image)
        product(P.k)

    return step, lambda: 0


# ---------------------------------------------------------------------------------- files and processes


@program(
    ["input/output"],
    dict(files=30, k=1),
    {
        "half": (faster("*: load_shards", 2), dict(files=15)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
    unseen=True,
)
def reading_shards(P):
    place = tempfile.mkdtemp()
    for i in range(30):
        with open(f"{place}/{i}", "wb") as f:
            f.write(os.urandom(3 << 20))

    def load_shards(n):
        out = []
        for i in range(n):
            with open(f"{place}/{i}", "rb") as f:
                out.append(f.read())
        return out

    def step(i):
        load_shards(int(P.files))
        product(P.k)

    return step, lambda: 0


@program(
    ["input/output", "outside"],
    dict(mb=16, k=2),
    {
        "half": (faster("*: save_state", 2), dict(mb=8)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
)
def saving_checkpoints(P):
    path = tempfile.mkdtemp() + "/state.pt"
    states = {mb: {"w": torch.ones(mb << 18)} for mb in (8, 16)}

    def save_state():
        torch.save(states[int(P.mb)], path)

    def step(i):
        product(P.k)
        save_state()

    return step, lambda: 0


@program(
    ["input/output", "python"],
    dict(lines=6000, k=1),
    {
        "half": (faster("*: log_lines", 2), dict(lines=3000)),
        "mm_8x": (op("aten::mm", 1 / 8), dict(k=8)),
    },
)
def flushed_log(P):
    f = open(tempfile.mkdtemp() + "/log", "w")

    def log_lines(n):
        for k in range(n):
            f.write(f"step {k} loss {k / 7:.4f}\n")
            f.flush()

    def step(i):
        log_lines(int(P.lines))
        product(P.k)

    return step, f.close


@program(
    ["outside", "input/output"],
    dict(reply=0.018, k=2),
    {
        "reply_half": (faster("*readline*", 2), dict(reply=0.009)),
        "mm_8x": (op("aten::mm", 1 / 8), dict(k=16)),
    },
)
def piped_worker(P):
    code = "import sys, time\nfor s in sys.stdin:\n time.sleep(float(s)); print('ok', flush=True)"
    w = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def step(i):
        w.stdin.write(f"{P.reply}\n")
        w.stdin.flush()
        w.stdout.readline()
        product(P.k)

    def close():
        w.stdin.close()
        w.wait()

    return step, close


def nap(seconds):
    time.sleep(seconds)


@program(
    ["outside"],
    dict(each=0.012, k=2),
    {
        "mm_8x": (op("aten::mm", 1 / 8), dict(k=16)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
)
def process_pool_map(P):
    import multiprocessing

    pool = multiprocessing.get_context("fork").Pool(2)

    def step(i):
        pool.map(nap, [P.each] * 4, chunksize=1)
        product(P.k)

    return step, pool.terminate


# ---------------------------------------------------------------------------------- several ranks


@program(
    ["waiting for a straggler", "device compute"],
    dict(k0=14, k1=4),
    {
        "slow_half": (op("aten::mm", 2, rank=0), dict(k0=7)),
        "fast_2x": (op("aten::mm", 0.5, rank=1), dict(k1=8)),
    },
    ranks=2,
)
def gloo_compute_straggler(P):
    import torch.distributed as dist

    t = torch.ones(4096)
    parts = [torch.empty(4096) for _ in range(2)]

    def step(i):
        product(P.k1 if P.rank else P.k0)
        dist.all_gather(parts, t)
        small()

    return step, lambda: 0


@program(
    ["communication", "outside", "waiting for a straggler"],
    dict(own=0.006, other=0.024),
    {
        "own_half": (faster("*: own", 2), dict(own=0.003)),
        "own_8x": (faster("*: own", 0.125), dict(own=0.048)),
    },
    ranks=2,
    kept=[0],
)
def gloo_one_rank_of_two(P):
    import torch.distributed as dist

    t = torch.ones(4096)

    def own():
        time.sleep(P.own)

    def other():
        time.sleep(P.other)

    def step(i):
        other() if P.rank else own()
        dist.all_reduce(t)
        small()

    return step, lambda: 0


@program(
    ["waiting for a straggler", "sleep and lock", "communication"],
    dict(first=0.016, second=0.006),
    {
        "first_half": (faster("*: first", 2), dict(first=0.008)),
        "second_4x": (faster("*: second", 0.25), dict(second=0.024)),
        "second_half": (faster("*: second", 2), dict(second=0.003)),
    },
    ranks=2,
    unseen=True,
    n=10,
)
def gloo_pipeline(P):
    import torch.distributed as dist

    t = torch.ones(4096)

    def first():
        time.sleep(P.first)

    def second():
        time.sleep(P.second)

    def step(i):
        if P.rank == 0:
            first()
            dist.send(t, 1)
        else:
            dist.recv(t, 0)
            second()
        small()

    return step, lambda: 0


# ---------------------------------------------------------------------------------- calling operators


@program(
    ["host framework"],
    dict(sampled=1, attended=1),
    {
        "sampling_none": (faster("*: sample", "inf"), dict(sampled=0)),
        "attention_none": (faster("*: attend", "inf"), dict(attended=0)),
    },
)
def decoding_with_cache(P):
    d, layers = 64, 3
    w = [torch.randn(d, 3 * d) * 0.1 for _ in range(layers)]
    o = [torch.randn(d, d) * 0.1 for _ in range(layers)]
    table = torch.randn(500, d)
    fixed = torch.tensor([3])

    def attend(q, k, v):
        return torch.softmax(q @ k.T * 0.1, -1) @ v

    def sample(scores):
        best, index = torch.topk(scores, 40)
        return index[0, torch.multinomial(torch.softmax(best, -1), 1)[0]]

    def step(i):
        token = fixed
        cache = [(torch.zeros(0, d), torch.zeros(0, d)) for _ in range(layers)]
        for _ in range(12):
            x = table[token]
            for at in range(layers):
                q, k, v = (x @ w[at]).chunk(3, -1)
                k, v = torch.cat([cache[at][0], k]), torch.cat([cache[at][1], v])
                cache[at] = k, v
                y = attend(q, k, v) if P.attended else q
                x = torch.relu(x + y @ o[at])
            scores = x @ table.T
            token = sample(scores) if P.sampled else fixed

    return step, lambda: 0


@program(
    ["host framework"],
    dict(adds=1, k=0),
    {
        "adds_none": (op("aten::add"), dict(adds=0)),
        "tanh_none": (op("aten::tanh"), dict(k=1)),
    },
    stack=False,
    unseen=True,
)
def tiny_operators(P):
    def step(i):
        y = X[0]
        for _ in range(1500):
            if P.adds:
                torch.add(y, 1)
            if not P.k:
                torch.tanh(y)
            torch.mul(y, 2)

    return step, lambda: 0


@program(
    ["host framework"],
    dict(optimized=1, backward=1),
    {"optimizer_none": ([{"phase": "optimizer", "speedup": "inf"}], dict(optimized=0))},
    stack=False,
    unseen=True,
    mark=None,
)
def adam_of_many(P):
    ws = [torch.nn.Parameter(torch.randn(16, 16) * 0.1) for _ in range(120)]
    adam = torch.optim.Adam(ws, foreach=False)
    x = torch.ones(4, 16)

    def step(i):
        adam.zero_grad()
        y = x
        for w in ws:
            y = torch.tanh(y @ w)
        y.sum().backward()
        if P.optimized:
            adam.step()

    return step, lambda: 0


@program(
    ["host framework", "python"],
    dict(read=1, n=1500),
    {"items_none": (op("aten::item"), dict(read=0))},
    stack=False,
)
def item_of_each(P):
    x = torch.ones(64)

    def step(i):
        for k in range(int(P.n)):
            y = x[k % 64]
            if P.read:
                y.item()

    return step, lambda: 0


@program(
    ["host framework"],
    dict(words=600, b=0.012),
    {
        "tail_half": (faster("tail", 2), dict(b=0.006)),
        "cells_half": (faster("cells", 2), dict(words=300)),
    },
    stack=False,
)
def recurrent_cells(P):
    cell = torch.nn.LSTMCell(32, 32)
    x = torch.ones(1, 32)

    def step(i):
        state = None
        with record_function("cells"), torch.no_grad():
            for _ in range(2 * int(P.words)):
                state = cell(x, state)
        with record_function("tail"):
            time.sleep(P.b)

    return step, lambda: 0


# ---------------------------------------------------------------------------------- computing


@program(
    ["device compute"],
    dict(k=8, b=0.006),
    {
        "mm_half": (op("aten::mm", 2), dict(k=4)),
        "tail_4x": (faster("tail", 0.25), dict(b=0.024)),
    },
    threads=8,
    stack=False,
)
def oversubscribed(P):
    a = torch.ones(600, 600)

    def step(i):
        for _ in range(int(P.k)):
            torch.mm(a, a)
        with record_function("tail"):
            time.sleep(P.b)

    return step, lambda: 0


@program(
    ["device compute", "device memory"],
    dict(k=30, b=0.006),
    {
        "block_half": (faster("*: block", 2), dict(k=15)),
        "tail_4x": (faster("*: tail", 0.25), dict(b=0.024)),
    },
)
def compiled_pointwise(P):
    @torch.compile
    def fused(x):
        return torch.nn.functional.gelu(x * 1.5 + 0.5) * torch.sigmoid(x)

    x = torch.ones(1 << 19)
    fused(x)

    def block():
        fused(x)

    def tail():
        time.sleep(P.b)

    def step(i):
        for _ in range(int(P.k)):
            block()
        tail()

    return step, lambda: 0


@program(
    ["device compute"],
    dict(k=14, runs=1),
    {
        "mm_half": (op("aten::mm", 2), dict(k=7)),
        "infer_6x": (faster("*: infer", 1 / 6), dict(runs=6)),
    },
)
def torch_beside_onnxruntime(P):
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h

    w = h.make_tensor("w", T.FLOAT, [512, 512], np.ones(512 * 512, dtype="f4").tolist())
    g = h.make_graph(
        [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", T.FLOAT, [512, 512])],
        [h.make_tensor_value_info("y", T.FLOAT, [512, 512])],
        [w],
    )
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)])
    m.ir_version = 9
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(m.SerializeToString(), o)
    x = np.ones((512, 512), dtype="f4")

    def infer():
        for _ in range(int(P.runs)):
            s.run(None, {"x": x})

    def step(i):
        infer()
        product(P.k)

    return step, lambda: 0


@program(
    ["device compute", "device memory"],
    dict(k=4, sigmoid=1),
    {
        "sigmoid_none": (op("aten::sigmoid"), dict(sigmoid=0)),
        "all_half": (
            [{"op": f"aten::{o}", "speedup": 2} for o in ("add", "mul", "sigmoid")],
            dict(k=2),
        ),
    },
    stack=False,
)
def pointwise_chain(P):
    x = torch.ones(1 << 20)

    def step(i):
        for _ in range(int(P.k)):
            y = x + 1
            y = y * 0.5
            if P.sigmoid:
                y = torch.sigmoid(y)

    return step, lambda: 0


@program(
    ["device compute", "device memory"],
    dict(k=4, m=6),
    {
        "lookups_half": (op("aten::embedding", 2), dict(k=2)),
        "mm_none": (op("aten::mm"), dict(m=0)),
    },
    stack=False,
)
def embedding_lookup(P):
    table = torch.nn.Embedding(300000, 64)
    ids = torch.randint(0, 300000, (20000,), generator=torch.Generator().manual_seed(0))

    def step(i):
        with torch.no_grad():
            for _ in range(int(P.k)):
                table(ids)
        product(P.m, 256)

    return step, lambda: 0


@program(
    ["device compute"],
    dict(backward=1, relu=1),
    {"backward_none": ([{"phase": "backward", "speedup": "inf"}], dict(backward=0))},
    stack=False,
)
def backward_of_mlp(P):
    net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(5)])
    x = torch.ones(256, 512)

    def step(i):
        loss = net(x).sum()
        if P.backward:
            loss.backward()

    return step, lambda: 0


@program(
    ["device compute"],
    dict(bn=1, relu=1),
    {
        "batch_norm_none": (op("aten::batch_norm"), dict(bn=0)),
        "relu_none": (op("aten::relu"), dict(relu=0)),
    },
    stack=False,
    unseen=True,
)
def convolution_and_norm(P):
    convs = [torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(4)]
    norms = [torch.nn.BatchNorm2d(32).eval() for _ in range(4)]
    x = torch.ones(2, 32, 64, 64)

    def step(i):
        y = x
        with torch.no_grad():
            for c, b in zip(convs, norms):
                y = c(y)
                if P.bn:
                    y = b(y)
                if P.relu:
                    y = torch.relu(y)

    return step, lambda: 0


@program(
    ["device compute"],
    dict(soft=1, k=1),
    {
        "softmax_none": (op("aten::softmax"), dict(soft=0)),
        "products_2x": (op("aten::matmul", 0.5), dict(k=2)),
    },
    stack=False,
)
def attention_block(P):
    q, k, v = (torch.randn(8, 256, 64) for _ in range(3))
    kt = k.transpose(1, 2).contiguous()

    def step(i):
        for _ in range(4):
            for _ in range(int(P.k)):
                s = torch.matmul(q, kt)
            if P.soft:
                s = torch.softmax(s, -1)
            for _ in range(int(P.k)):
                torch.matmul(s, v)

    return step, lambda: 0


@program(
    ["device compute"],
    dict(k=6, m=8),
    {
        "sparse_half": (op("aten::matmul", 2), dict(k=3)),
        "exp_none": (op("aten::exp"), dict(m=0)),
    },
    stack=False,
)
def sparse_rows(P):
    a = torch.zeros(4000, 4000)
    at = torch.arange(4000)
    for k in range(40):
        a[at, (at * 13 + k * 97) % 4000] = 1
    a = a.to_sparse_csr()
    x = torch.ones(4000, 64)
    y = torch.ones(1 << 17)

    def step(i):
        for _ in range(int(P.k)):
            torch.matmul(a, x)
        for _ in range(int(P.m)):
            torch.exp(y)

    return step, lambda: 0


@program(
    ["device compute"],
    dict(sorted_=1, top=1),
    {
        "sort_none": (op("aten::sort"), dict(sorted_=0)),
        "topk_none": (op("aten::topk"), dict(top=0)),
    },
    stack=False,
    unseen=True,
)
def sort_and_topk(P):
    x = torch.randn(150000)

    def step(i):
        y = x
        if P.sorted_:
            y = torch.sort(x).values
        if P.top:
            torch.topk(x, 5000)
        torch.cumsum(y, 0)

    return step, lambda: 0


@program(
    ["device memory", "device compute"],
    dict(k=4, m=1),
    {
        "copies_half": (op("aten::clone", 2), dict(k=2)),
        "mm_8x": (op("aten::mm", 1 / 8), dict(m=8)),
    },
    stack=False,
)
def transposing_copies(P):
    x = torch.ones(1200, 1200)

    def step(i):
        for _ in range(int(P.k)):
            x.t().contiguous()
        product(P.m, 400)

    return step, lambda: 0


@program(
    ["device memory", "device compute"],
    dict(cast=1, k=3),
    {
        "casts_none": (op("aten::to"), dict(cast=0)),
        "mm_none": (op("aten::mm"), dict(k=0)),
    },
    stack=False,
)
def casting(P):
    x = torch.ones(1 << 20)
    half = x.to(torch.float16)

    def step(i):
        for _ in range(5):
            if P.cast:
                x.to(torch.float16)
                half.to(torch.float32)
        product(P.k, 400)

    return step, lambda: 0


if __name__ == "__main__":
    main("more_programs", __file__)
