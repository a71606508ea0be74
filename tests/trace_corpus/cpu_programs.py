"""CPU programs with planted bottlenecks, by the rules of `running.py`.

python tests/trace_corpus/cpu_programs.py NAME|all FOLDER
"""

import hashlib
import json
import multiprocessing as mp
import os
import queue
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from running import PROGRAMS, main, program
from torch.profiler import record_function

__all__ = ["PROGRAMS"]

SL = lambda name, s, **more: [{"name": name, "speedup": s, **more}]

X = torch.randn(64, 64)


def small(k=20):
    y = X
    for _ in range(k):
        y = torch.relu(y + 1)
    return y


@program(
    ["sleep and lock"],
    dict(hold=0.020, own=0.008),
    {
        "hold_half": (SL("*: hold_it", 2), dict(hold=0.010)),
        "own_half": (SL("*: own_work", 2), dict(own=0.004)),
    },
)
def lock_with(P):
    lock, go, stop = threading.Lock(), threading.Event(), []

    def hold_it():
        time.sleep(P.hold)

    def holder():
        while True:
            go.wait()
            go.clear()
            if stop:
                return
            with lock:
                inside.set()
                hold_it()

    def own_work():
        time.sleep(P.own)

    inside = threading.Event()
    t = threading.Thread(target=holder, daemon=True)
    t.start()

    def step(i):
        inside.clear()
        go.set()
        inside.wait()
        with lock:
            small()
        own_work()

    def close():
        stop.append(1)
        go.set()
        t.join()

    return step, close


@program(
    ["sleep and lock", "outside"],
    dict(make=0.016, use=0.006),
    {
        "make_half": (SL("*: produce", 2), dict(make=0.008)),
        "use_half": (SL("*: consume", 2), dict(use=0.003)),
        "use_4x": (SL("*: consume", 0.25), dict(use=0.024)),
    },
)
def queue_handover(P):
    q = queue.Queue(2)
    stop = []

    def produce():
        time.sleep(P.make)

    def run():
        while not stop:
            produce()
            q.put(1)

    def consume():
        time.sleep(P.use)

    t = threading.Thread(target=run, daemon=True)
    t.start()

    def step(i):
        q.get()
        small()
        consume()

    def close():
        stop.append(1)
        while t.is_alive():
            try:
                q.get(timeout=0.05)
            except queue.Empty:
                pass

    return step, close


@program(
    ["sleep and lock", "outside"],
    dict(slow=0.024, fast=0.006, tail=0.004),
    {
        "slow_half": (SL("*: slow_task", 2), dict(slow=0.012)),
        "fast_half": (SL("*: fast_task", 2), dict(fast=0.003)),
        "fast_8x": (SL("*: fast_task", 0.125), dict(fast=0.048)),
    },
)
def pool_slow_worker(P):
    from concurrent.futures import ThreadPoolExecutor

    ex = ThreadPoolExecutor(3)
    list(ex.map(lambda _: time.sleep(0.02), range(3)))

    def slow_task():
        time.sleep(P.slow)

    def fast_task():
        time.sleep(P.fast)

    def step(i):
        fs = [ex.submit(slow_task), ex.submit(fast_task), ex.submit(fast_task)]
        for f in fs:
            f.result()
        small()
        time.sleep(P.tail)

    return step, lambda: ex.shutdown()


class Items(torch.utils.data.Dataset):
    def __init__(s, P):
        s.P = P

    def __len__(s):
        return 4000

    def __getitem__(s, i):
        time.sleep(s.P.item)
        return torch.zeros(16)


def loader(P, workers):
    it = iter(torch.utils.data.DataLoader(Items(P), batch_size=4, num_workers=workers))

    def model():
        time.sleep(P.model)

    def step(i):
        x = next(it)
        torch.relu(x)
        model()

    def close():
        if workers:
            it._shutdown_workers()

    return step, close


@program(
    ["data loading"],
    dict(item=0.005, model=0.006),
    {
        "item_half": (SL("*: __getitem__", 2), dict(item=0.0025)),
        "model_half": (SL("*: model", 2), dict(model=0.003)),
    },
)
def loader_0(P):
    return loader(P, 0)


@program(
    ["data loading", "outside"],
    dict(item=0.006, model=0.008),
    {
        "model_half": (SL("*: model", 2), dict(model=0.004)),
        "model_4x": (SL("*: model", 0.25), dict(model=0.032)),
    },
    n=14,
    skip=6,
)
def loader_1(P):
    return loader(P, 1)


@program(
    ["data loading", "outside"],
    dict(item=0.018, model=0.006),
    {
        "model_half": (SL("*: model", 2), dict(model=0.003)),
        "model_6x": (SL("*: model", 1 / 6), dict(model=0.036)),
    },
    n=18,
    skip=6,
)
def loader_3(P):
    return loader(P, 3)


@program(
    ["outside", "python"],
    dict(mb=4, tail=0.004),
    {
        "half": (SL("*compress*", 2), dict(mb=2)),
        "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012)),
    },
)
def zlib_native(P):
    data = os.urandom(1 << 20)

    def tail():
        time.sleep(P.tail)

    def step(i):
        for _ in range(int(P.mb)):
            zlib.compress(data, 1)
        small()
        tail()

    return step, lambda: 0


@program(
    ["outside", "python"],
    dict(k=12, tail=0.004),
    {"half": (SL("*sha256*", 2), dict(k=6)), "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012))},
)
def hashlib_native(P):
    data = os.urandom(1 << 21)

    def tail():
        time.sleep(P.tail)

    def step(i):
        for _ in range(int(P.k)):
            hashlib.sha256(data)
        small()
        tail()

    return step, lambda: 0


@program(
    ["outside", "python"],
    dict(k=3, tail=0.004),
    {"k_third": (SL("*dot*", 3), dict(k=1)), "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012))},
)
def numpy_dot(P):
    import numpy as np

    a = np.random.rand(512, 512)

    def tail():
        time.sleep(P.tail)

    def step(i):
        for _ in range(int(P.k)):
            np.dot(a, a)
        small()
        tail()

    return step, lambda: 0


@program(
    ["outside"],
    dict(child=0.03, tail=0.01),
    {
        "tail_half": (SL("*: tail", 2), dict(tail=0.005)),
        "tail_4x": (SL("*: tail", 0.25), dict(tail=0.04)),
    },
)
def subprocess_wait(P):
    def tail():
        time.sleep(P.tail)

    def step(i):
        subprocess.run(["sleep", str(P.child)], check=True)
        small()
        tail()

    return step, lambda: 0


@program(
    ["input/output", "outside"],
    dict(server=0.02, tail=0.006),
    {
        "tail_half": (SL("*: tail", 2), dict(tail=0.003)),
        "recv_half": (SL("*recv*", 2), dict(server=0.01)),
    },
)
def socket_recv(P):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    pid = os.fork()
    if pid == 0:
        c, _ = s.accept()
        while True:
            d = c.recv(8)
            if not d:
                os._exit(0)
            time.sleep(float(d))
            c.sendall(b"x" * 64)
    c = socket.create_connection(s.getsockname())

    def tail():
        time.sleep(P.tail)

    def step(i):
        c.sendall((f"{P.server:.6f}").encode())
        c.recv(64)
        small()
        tail()

    def close():
        c.close()
        os.waitpid(pid, 0)

    return step, close


@program(
    ["input/output", "outside"],
    dict(rows=60, tail=0.004),
    {
        "half": (SL("*: write_rows", 2), dict(rows=30)),
        "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012)),
    },
)
def sqlite_rows(P):
    d = tempfile.mkdtemp()
    db = sqlite3.connect(d + "/x.db", isolation_level=None)
    db.execute("create table t (a int, b text)")

    def tail():
        time.sleep(P.tail)

    def write_rows():
        for k in range(int(P.rows)):
            db.execute("insert into t values (?, ?)", (k, "x" * 100))

    def step(i):
        write_rows()
        small()
        tail()

    return step, lambda: db.close()


@program(
    ["python"],
    dict(k=4, tail=0.004),
    {"half": (SL("*: parse", 2), dict(k=2)), "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012))},
)
def json_parse(P):
    text = json.dumps([{"a": i, "b": [1.5, "x" * 10, None]} for i in range(4000)])

    def tail():
        time.sleep(P.tail)

    def parse():
        for _ in range(int(P.k)):
            json.loads(text)

    def step(i):
        parse()
        small()
        tail()

    return step, lambda: 0


@program(["python", "sleep and lock", "outside"], dict(rival=1, own=60000), {})
def gil_contention(P):
    stop = []

    def rival():
        x = 0
        while not stop:
            x += 1

    ts = [threading.Thread(target=rival, daemon=True) for _ in range(int(P.rival))]
    for t in ts:
        t.start()

    def count():
        x = 0
        for k in range(P.own):
            x += k * k
        return x

    def step(i):
        count()
        small()
        time.sleep(0.002)

    def close():
        stop.append(1)
        for t in ts:
            t.join()

    return step, close


@program(
    ["host framework", "device compute", "python"],
    dict(tokens=6, tail=0.003),
    {"tail_half": (SL("*: tail", 2), dict(tail=0.0015))},
    n=6,
)
def generate_loop(P):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    m = GPT2LMHeadModel(
        GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500, n_positions=64)
    ).eval()
    ids = torch.ones(1, 8, dtype=torch.long)

    def tail():
        time.sleep(P.tail)

    def step(i):
        m.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=int(P.tokens),
            min_new_tokens=int(P.tokens),
            do_sample=False,
            pad_token_id=0,
        )
        tail()

    return step, lambda: 0


@program(
    ["device compute"], dict(k=2, tail=0.004), {"tail_8x": (SL("*: tail", 0.125), dict(tail=0.032))}
)
def compiled_mlp(P):
    torch.manual_seed(0)
    m = torch.nn.Sequential(*[torch.nn.Linear(768, 768) for _ in range(4)])
    c = torch.compile(m)
    x = torch.randn(256, 768)
    with torch.no_grad():
        c(x)

    def tail():
        time.sleep(P.tail)

    def step(i):
        with torch.no_grad():
            for _ in range(int(P.k)):
                c(x)
        tail()

    return step, lambda: 0


@program(
    ["outside", "device compute"],
    dict(k=3, tail=0.004),
    {"third": (SL("*: infer", 3), dict(k=1)), "tail_8x": (SL("*: tail", 0.125), dict(tail=0.032))},
)
def ort_in_loop(P):
    import numpy as np
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h

    w = h.make_tensor("w", T.FLOAT, [768, 768], np.random.rand(768 * 768).astype("f4").tolist())
    g = h.make_graph(
        [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("MatMul", ["a", "w"], ["y"])],
        "g",
        [h.make_tensor_value_info("x", T.FLOAT, [256, 768])],
        [h.make_tensor_value_info("y", T.FLOAT, [256, 768])],
        [w],
    )
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)])
    m.ir_version = 9
    o = ort.SessionOptions()
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(m.SerializeToString(), o)
    x = np.random.rand(256, 768).astype("f4")

    def tail():
        time.sleep(P.tail)

    def infer():
        s.run(None, {"x": x})

    def step(i):
        for _ in range(int(P.k)):
            infer()
        small()
        tail()

    return step, lambda: 0


@program(["input/output"], dict(k=32, tail=0.003), {"half": (SL("*: save", 2), dict(k=16))})
def file_sync(P):
    f = open(tempfile.mkdtemp() + "/log", "wb", buffering=0)
    data = os.urandom(1 << 18)

    def tail():
        time.sleep(P.tail)

    def save():
        for _ in range(int(P.k)):
            f.write(data)
            os.fsync(f.fileno())

    def step(i):
        save()
        small()
        tail()

    return step, f.close


# without stacks: either the right class, or no verdict and a request for stacks
@program(
    ["none", "sleep and lock", "outside"],
    dict(a=0.02, b=0.008),
    {"load_half": (SL("load", 2), dict(a=0.01)), "post_half": (SL("post", 2), dict(b=0.004))},
    stack=False,
)
def ranges_sleep(P):
    def step(i):
        with record_function("load"):
            time.sleep(P.a)
        small()
        with record_function("post"):
            time.sleep(P.b)

    return step, lambda: 0


@program(
    ["none", "outside"], dict(k=6, b=0.02), {"b_half": (SL("tail", 2), dict(b=0.01))}, stack=False
)
def other_thread_ops(P):
    from concurrent.futures import ThreadPoolExecutor

    ex = ThreadPoolExecutor(1)
    A = torch.randn(700, 700)

    def heavy():
        for _ in range(int(P.k)):
            torch.mm(A, A)

    def step(i):
        ex.submit(heavy).result()
        small()
        with record_function("tail"):
            time.sleep(P.b)

    return step, lambda: ex.shutdown()


@program(
    ["device compute"], dict(k=6, b=0.01), {"b_3x": (SL("tail", 1 / 3), dict(b=0.03))}, stack=False
)
def matmul_plain(P):
    A = torch.randn(700, 700)

    def step(i):
        for _ in range(int(P.k)):
            torch.mm(A, A)
        with record_function("tail"):
            time.sleep(P.b)

    return step, lambda: 0


@program(
    ["data loading"],
    dict(item=0.006, model=0.006),
    {"model_half": (SL("model", 2), dict(model=0.003))},
    stack=False,
)
def loader_0_plain(P):
    it = iter(torch.utils.data.DataLoader(Items(P), batch_size=4))

    def step(i):
        x = next(it)
        torch.relu(x)
        with record_function("model"):
            time.sleep(P.model)

    return step, lambda: 0


# ------------------------------------------------------------------- unseen until the end
@program(
    ["sleep and lock"],
    dict(hold=0.018, own=0.006),
    {
        "hold_half": (SL("*: critical", 2), dict(hold=0.009)),
        "own_half": (SL("*: own", 2), dict(own=0.003)),
    },
    unseen=True,
)
def rlock_two_holders(P):
    """Two workers take an RLock in turn and hold it; main takes it as third, each step (a class with a lock attribute)."""

    class Store:
        def __init__(s):
            s.lock = threading.RLock()

        def critical(s):
            time.sleep(P.hold)

        def update(s):
            with s.lock:
                s.critical()

        def read(s):
            with s.lock:
                return small()

    st = Store()
    b = threading.Barrier(2)
    stop = []

    def worker():
        while True:
            b.wait()
            if stop:
                return
            st.update()

    t = threading.Thread(target=worker, daemon=True)
    t.start()

    def own():
        time.sleep(P.own)

    def step(i):
        b.wait()
        time.sleep(0.001)
        st.read()
        own()

    def close():
        stop.append(1)
        b.wait()
        t.join()

    return step, close


@program(
    ["sleep and lock", "outside"],
    dict(a=0.006, b=0.014, c=0.005),
    {
        "b_half": (SL("*: stage_b", 2), dict(b=0.007)),
        "a_3x": (SL("*: stage_a", 1 / 3), dict(a=0.018)),
        "c_half": (SL("*: stage_c", 2), dict(c=0.0025)),
    },
    unseen=True,
    n=14,
    skip=6,
)
def three_stage_pipeline(P):
    q1, q2 = queue.Queue(2), queue.Queue(2)
    stop = []

    def stage_a():
        time.sleep(P.a)

    def stage_b():
        time.sleep(P.b)

    def stage_c():
        time.sleep(P.c)

    def ra():
        while not stop:
            stage_a()
            q1.put(1)

    def rb():
        while not stop:
            q1.get()
            stage_b()
            q2.put(1)

    ts = [threading.Thread(target=f, daemon=True) for f in (ra, rb)]
    for t in ts:
        t.start()

    def step(i):
        q2.get()
        stage_c()
        small()

    def close():
        stop.append(1)
        for _ in range(6):
            for q in (q1, q2):
                try:
                    q.get(timeout=0.02)
                except queue.Empty:
                    pass
            try:
                q1.put_nowait(1)
            except queue.Full:
                pass

    return step, close


@program(
    ["outside"],
    dict(child=0.025, tail=0.008),
    {
        "tail_half": (SL("*: tail", 2), dict(tail=0.004)),
        "tail_4x": (SL("*: tail", 0.25), dict(tail=0.032)),
    },
    unseen=True,
)
def process_pool(P):
    from concurrent.futures import ProcessPoolExecutor

    ex = ProcessPoolExecutor(1, mp_context=mp.get_context("fork"))
    ex.submit(time.sleep, 0).result()

    def tail():
        time.sleep(P.tail)

    def step(i):
        ex.submit(time.sleep, P.child).result()
        small()
        tail()

    return step, lambda: ex.shutdown()


@program(
    ["sleep and lock"],
    dict(a=0.02, b=0.01),
    {"a_half": (SL("*: fetch_a", 2), dict(a=0.01)), "b_half": (SL("*: fetch_b", 2), dict(b=0.005))},
    unseen=True,
)
def asyncio_gather(P):
    import asyncio

    loop = asyncio.new_event_loop()

    async def fetch_a():
        await asyncio.sleep(P.a)

    async def fetch_b():
        await asyncio.sleep(P.b)

    async def both():
        await asyncio.gather(fetch_a(), fetch_b())

    def step(i):
        loop.run_until_complete(both())
        small()

    return step, loop.close


@program(
    ["outside", "python"],
    dict(k=3, tail=0.004),
    {
        "third": (SL("*: squeeze", 3), dict(k=1)),
        "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012)),
    },
    unseen=True,
)
def bz2_native(P):
    import bz2

    data = os.urandom(1 << 16)

    def tail():
        time.sleep(P.tail)

    def squeeze():
        bz2.compress(data)

    def step(i):
        for _ in range(int(P.k)):
            squeeze()
        small()
        tail()

    return step, lambda: 0


@program(
    ["python"],
    dict(n=4000, tail=0.004),
    {
        "half": (SL("*: tokenize", 2), dict(n=2000)),
        "tail_3x": (SL("*: tail", 1 / 3), dict(tail=0.012)),
    },
    unseen=True,
)
def tokenizer_python(P):

    def tail():
        time.sleep(P.tail)

    def tokenize(text):
        out = []
        for w in text.split():
            out.append(sum(ord(c) for c in w) % 500)
        return out

    text = "word another third " * 20000

    def step(i):
        tokenize(text[: int(P.n) * 6])
        small()
        tail()

    return step, lambda: 0


@program(
    ["waiting for a straggler", "sleep and lock"],
    dict(own=0.006, other=0.036),
    {
        "late_fast": (SL("*: forward", 2, rank=1), dict(other=0.018)),
        "rank0_half": (SL("*: forward", 2, rank=0), dict(own=0.003)),
    },
    ranks=2,
)
def gloo_straggler(P):
    import torch.distributed as dist

    t = torch.ones(1000)

    def forward():
        time.sleep(P.other if P.rank else P.own)

    def step(i):
        forward()
        dist.all_reduce(t)
        small()

    return step, lambda: 0


if __name__ == "__main__":
    main("cpu_programs", __file__)
