"""A busy endpoint on loopback, measured from the command line."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest

from support.odd_server import Answer, odd_server

pytestmark = pytest.mark.slow  # each run starts processes that import torch
FAST = (
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=40", "stopping.window_s=0.01"),
    *("profiler=none", "recorder=none", "protocol.pin=false", "protocol.pairing=none"),
    "protocol.canary_tolerance_ratio=null",
)


@pytest.fixture
def words():
    """The model: one answer in ten is a 503, all others come in gzip."""
    requests = itertools.count(1)

    def respond(method, path, body):
        if next(requests) % 10 == 0:
            return Answer(body=b"queue full\n", status=503, headers={"Retry-After": "0"})
        sums = [sum(row) for row in json.loads(body)["x"]]
        content = gzip.compress(json.dumps({"sums": sums}).encode())
        return Answer(body=content, headers={"Content-Encoding": "gzip"})

    with odd_server() as server:
        server.respond = respond
        inputs = "model.inputs={x: {shape: [batch_size, 4], generator: normal}}"
        yield ("run", "model=http", f"model.url={server.url}/x", inputs, "conversion=eager", *FAST)


LOADS = {
    "server": ("scenario.rate_per_s=50", "scenario.duration_s=3", "scenario.min_queries=0"),
    "offline": ("scenario.min_duration_s=1",),
}


@pytest.mark.parametrize("scenario", LOADS)
def test_a_load_counts_what_is_not_answered(scenario, words, place):
    done = place.run(*words, f"scenario={scenario}", *LOADS[scenario], "hydra.run.dir=out")
    assert "queries had no answer (503: " in done.stdout + done.stderr
    (result,) = place.results("out")
    assert any("sent again" in note for note in result["parity"]["notes"])


def test_a_single_stream_fails_with_status_body_and_the_next_command(words, place):
    done = place.run(*words, code=1)
    said = done.stdout + done.stderr
    assert "answered 503" in said
    assert "(Retry-After: 0): queue full." in said
    assert "scenario=server" in said
