"""Command lines and recipes at random: a sentence or a plan, never a traceback, a hang or 10 CPU s.

`FUZZ` is how many of each are tried; a slice by default. All run in this process, which is five
times as fast as a fork of each: an error that no command expects would be a person's traceback.
What every case composes in the same way, without a word of its own, is composed once.
"""

from __future__ import annotations

import contextlib
import copy
import io
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchorch.cli import main
from benchorch.cli.terminal import print_error
from benchorch.config import composer, diagnostics
from benchorch.config.overrides import key_of
from benchorch.errors import BenchorchError
from support.loggers import unchanged_loggers
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


BASE = ("model=mlp", "conversion=eager")
SHARED = ((), *((word,) for word in BASE), BASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that holds nothing, which is the current one."""
    folder = tmp_path_factory.mktemp("fuzz")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for module in (composer, diagnostics):
            patch.setattr(module, "load", composed_once(diagnostics.load))
        yield folder


def composed_once(load: Callable[..., Any]) -> Callable[..., Any]:
    """Hydra's composition, whose result for `SHARED` overrides of the built-in root is copied."""
    known: dict[tuple[str, ...], Any] = {}

    def loaded(loader: Any, name: str, overrides: Sequence[str], *, sweep: bool = False) -> Any:
        words = tuple(overrides)
        if name != "config" or sweep or words not in SHARED:
            return load(loader, name, overrides, sweep=sweep)
        if words not in known:
            known[words] = load(loader, name, overrides)
        return copy.deepcopy(known[words])

    return loaded


class TooLongError(BaseException):
    """No `Exception`, which code under test might take for an upstream package's."""


@contextlib.contextmanager
def ended_after(cpu_s: int) -> Iterator[None]:
    """TooLongError where a case takes longer, wherever it is then."""

    def end(*_: object) -> None:
        raise TooLongError(f"more than {cpu_s} CPU seconds")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(words: list[str]) -> None:
    """Anything but a code, or an error with a sentence, fails."""
    shown = io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            with ended_after(LIMIT_CPU_S), unchanged_loggers():
                code = main.run(words)
        except SystemExit as ended:
            code = ended.code
        except BenchorchError as error:
            code = print_error(error, as_json=False)
    assert code in (0, None) or shown.getvalue().strip(), f"code {code} without a word: {words}"


@pytest.mark.timeout(36000)
@fuzzed(20)
@given(words=st.lists(word, max_size=4))
def test_a_command_line_is_planned_or_refused(folder: Path, words: list[str]) -> None:
    said = {key_of(word) for word in words}
    base = [word for word in BASE if key_of(word) not in said]  # a group is chosen once
    judge(["plan", *base, *speakable(words)])


@pytest.mark.timeout(36000)
@fuzzed(20)
@given(tree=st.dictionaries(st.one_of(key, st.integers()), node, max_size=4))
def test_a_recipe_is_planned_or_refused(folder: Path, tree: dict[Any, Any]) -> None:
    defaults = ["config", {"override model": "mlp"}, {"override conversion": "eager"}, "_self_"]
    (folder / "fuzzed.yaml").write_text(yaml.safe_dump({"defaults": defaults, **tree}))
    judge(["plan", "fuzzed.yaml"])


@pytest.mark.timeout(36000)
@fuzzed(20)
@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_a_file_that_is_no_recipe_is_refused(folder: Path, content: bytes) -> None:
    (folder / "bytes.yaml").write_bytes(content)
    judge(["plan", "bytes.yaml", "model=mlp", "conversion=eager"])
