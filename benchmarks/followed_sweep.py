"""What following a sweep on a stack costs the laptop: CPU of a core, and requests to AWS a minute.

Each look is the real one, against emulated services in a process of their own; its CPU seconds are
divided by the time from look to look. Machines, Ray and waiting are left out.

    python benchmarks/followed_sweep.py [RESULTS ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from _harness import ROOT

from benchorch.domain.codec import encode
from benchorch.domain.result import Outcome, TrialResult
from benchorch.executors.sent_sweep import SentSweep
from benchorch.executors.stack import HEAD_LOOK_S, LOOK_S
from benchorch.hardware.aws_stack import AwsStack
from benchorch.interfaces.stack import StackFacts
from benchorch.journal import chain

BUCKET, LOOKS, HEAD_LOOKS = "mine-123456789012", 40, 8
BYTES_A_RESULT = 8_000
SERVER = """
import sys
from support.aws_emulator.server import Emulator
with Emulator({}).running() as emulator:
    print(emulator.endpoint, flush=True)
    for _ in sys.stdin:
        print(sum(emulator.traffic.counts.values()), flush=True)
"""


def main(counts: list[int]) -> None:
    print("| results so far | CPU of a look | CPU of a core | requests a minute |")
    print("|---|---|---|---|")
    for count in counts:
        with emulated() as asked, tempfile.TemporaryDirectory() as place:
            stack = prepared(count)
            sweep = SentSweep(stack=stack, name="p-1", directory=Path(place))
            sweep.seen.update(f"{n:016x}" for n in range(count))
            look(sweep)  # connections
            before = asked()
            look_s = cpu_s(partial(look, sweep), LOOKS)
            head_s = cpu_s(stack.head, HEAD_LOOKS)
            requests = asked() - before
            share = look_s / LOOK_S + head_s / HEAD_LOOK_S
            minute = 60 / LOOK_S * (requests - HEAD_LOOKS) / LOOKS + 60 / HEAD_LOOK_S * 2
            print(f"| {count} | {look_s * 1e3:.1f} ms | {share:.2%} | {minute:.0f} |")


def look(sweep: SentSweep) -> None:
    assert not sweep.status().get("ended_at")
    assert not sweep.new_entries()


def cpu_s(work: object, times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()  # type: ignore[operator]
    return (time.process_time() - begun) / times


def prepared(count: int) -> AwsStack:
    """A stack whose bucket has a sweep that goes on, with as many results."""
    import boto3

    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    lines: list[bytes] = []
    for n in range(count):
        result = TrialResult(
            trial_id=f"{n:016x}", labels={"x": "y" * BYTES_A_RESULT}, outcome=Outcome.OK
        )
        lines.append(chain.seal(encode(result), lines[-1] if lines else b""))
    s3.put_object(Bucket=BUCKET, Key="results/p-1/results.jsonl", Body=b"\n".join([*lines, b""]))
    status = {"pid": 1, "busy": {"a": {"since": "", "text": "measure process 1"}}}
    s3.put_object(Bucket=BUCKET, Key="results/p-1/driver.json", Body=json.dumps(status).encode())
    urls = {f"{name}_url": f"s3://{BUCKET}/{name}" for name in ("results", "store", "starts")}
    return AwsStack(record=StackFacts(name="mine", region="us-east-1", kinds=(), **urls))


@contextmanager
def emulated() -> Iterator[object]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        os.environ.update(keys, AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
        os.environ["AWS_ENDPOINT_URL"] = server.stdout.readline().strip()

        def asked() -> int:
            server.stdin.write("?\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        yield asked
        server.stdin.close()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [10, 1000])
