"""Command lines and recipes at random: a sentence or a plan, never a traceback, a hang or 10 CPU s.

`FUZZ` is how many of each are tried; a slice by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.command_lines import Commands
from support.mutations import LIMIT_CPU_S, fuzzed

KEYS = (
    *("model", "conversion", "hardware", "workload", "scenario", "stopping", "profiler", "store"),
    *("executor", "recorder", "name", "matrix", "each", "baseline", "control", "rebuild", "resume"),
    *("keep_at", "profile", "objective", "parity", "protocol", "pricing", "budget", "limits"),
    *("workload.batch_size", "workload.dynamic", "workload.dtype", "model.inputs", "parity.data"),
    *("protocol.pairing", "limits.memory_gib", "model.checkpoint", "model.config", "hydra.run.dir"),
    *("model.factory", "pricing.usd_per_hour", "budget.minutes", "stopping._target_", "defaults"),
    *("hydra/launcher", "hydra.mode", "model@other", "", ".", "a..b", "_target_", "hydra.job.name"),
)
NAMES = ("mlp", "eager", "bert_tiny", "local", "quick", "onnxruntime", "g5.xlarge", "server", "s3")
ODD = (
    *("null", "true", "~", "???", "${name}", "${", "${oc.env:HOME}", "${now:%Y}", "${oc.decode:[}"),
    *("[1,2]", "{a: 1}", "[[]]", "{", "]", "'", "\\", "1e999", "-1", "0", ".nan", "1_000", "0x1f"),
    *(
        "\x1b[2J",
        "\u202eabc",
        "é",
        "../../x",
        "/",
        "a=b",
        "=",
        ",",
        "x" * 3000,
        "9" * 400,
        "!!int x",
    ),
    *("${matrix}", "${.}", "${..name}", "range(1,3)", "choice(1,2)", "glob(*)", "interval(0,1)"),
)
text = st.one_of(st.sampled_from(NAMES), st.sampled_from(ODD), st.text(max_size=8))
key = st.one_of(st.sampled_from(KEYS), st.text(max_size=5))
prefix = st.sampled_from(["", "", "", "+", "++", "~", "-", "--"])
scalar = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), text, st.dates(), st.binary(max_size=4)
)
node = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.one_of(key, st.integers(), st.booleans()), inner, max_size=3)
    ),
    max_leaves=8,
)
word = st.one_of(
    st.builds("{}{}={}".format, prefix, key, text),
    st.builds("{}={}".format, key, st.lists(text, max_size=3).map(",".join)),
    st.builds("{}=[{}]".format, key, st.lists(text, max_size=3).map(",".join)),
    st.sampled_from(["-m", "--cfg", "job", "--json", "--config-dir", "--trust", "--allow-skips"]),
    text,
)


def speakable(words: list[str]) -> list[str]:
    """What a kernel passes on: words without NUL, in UTF-8."""
    return [w.replace("\0", "").encode(errors="ignore").decode() for w in words]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def judge(commands: Commands, folder: Path, words: list[str]) -> None:
    done = commands.run(folder, words, LIMIT_CPU_S)
    assert "Traceback (most recent call last)" not in done.output, done.output[-3000:]
    assert done.code >= 0, f"signal {-done.code} after {done.cpu_s:.1f} CPU s: {words}"
    assert done.cpu_s < LIMIT_CPU_S
    assert done.code == 0 or done.output.strip(), f"code {done.code} without a word: {words}"


@pytest.mark.timeout(36000)
@fuzzed(12)
@given(words=st.lists(word, max_size=4))
def test_a_command_line_is_planned_or_refused(
    commands: Commands, folder: Path, words: list[str]
) -> None:
    judge(commands, folder, ["plan", "model=mlp", "conversion=eager", *speakable(words)])


@pytest.mark.timeout(36000)
@fuzzed(12)
@given(tree=st.dictionaries(st.one_of(key, st.integers()), node, max_size=4))
def test_a_recipe_is_planned_or_refused(
    commands: Commands, folder: Path, tree: dict[Any, Any]
) -> None:
    defaults = ["config", {"override model": "mlp"}, {"override conversion": "eager"}, "_self_"]
    (folder / "fuzzed.yaml").write_text(yaml.safe_dump({"defaults": defaults, **tree}))
    judge(commands, folder, ["plan", "fuzzed.yaml"])


@pytest.mark.timeout(36000)
@fuzzed(12)
@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_a_file_that_is_no_recipe_is_refused(
    commands: Commands, folder: Path, content: bytes
) -> None:
    (folder / "bytes.yaml").write_bytes(content)
    judge(commands, folder, ["plan", "bytes.yaml", "model=mlp", "conversion=eager"])
