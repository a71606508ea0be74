"""A pipe, a device, a folder or a huge file that a command names: a sentence, and no wait."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_lines import Commands
from support.slices import one_in

FACTORY = (
    "plan model=factory model.factory=torch.nn:Linear conversion=eager "
    "+model.arguments.in_features=4 +model.arguments.out_features=4 "
)
DECLARED = "model.inputs={input:{shape:[batch_size,4],generator:normal}}"
LINES = {
    "recipe.yaml": "plan @F",
    "settings.yaml": "plan model=mlp conversion=eager --config-dir @D/conf model=named",
    "script.py": "script @F --analyze-only",
    "program.pt2": "script @F --analyze-only",
    "graph.onnx": "script @F --analyze-only",
    "checkpoint.pt": f"{FACTORY} {DECLARED} model.checkpoint=@F",
    "weights.safetensors": f"{FACTORY} {DECLARED} model.checkpoint=@F",
    "rows.npy": f"{FACTORY} model.inputs={{input:{{file:@F}}}}",
    "rows.npz": f"{FACTORY} {DECLARED} parity.data=@F",
    "code.py": f"plan model=factory model.factory=@F:make conversion=eager {DECLARED}",
    "trace.json": "analyze @F",
    "trace.json.gz": "analyze @F",
    "trace.sqlite": "analyze @F",
    "question.yaml": "analyze @D/none.json --what-if @F",
    "run.json": "compare @F @F",
    "results.jsonl": "report @F",
    "bundle.zip": "reproduce @F",
    "tracker.db": "ui --uri sqlite:///@F --check",
    "notebook.ipynb": "script @F --analyze-only",
}
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "huge": lambda path: os.truncate(path, 2**40),
}


@pytest.mark.parametrize(("name", "kind"), one_in(11, itertools.product(LINES, KINDS)))
def test_what_is_no_file_ends_with_a_sentence(
    name: str, kind: str, commands: Commands, tmp_path: Path
) -> None:
    path = tmp_path / ("conf/model/named.yaml" if name == "settings.yaml" else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "huge":
        path.touch()
    KINDS[kind](path)
    words = [
        word.replace("@F", str(path)).replace("@D", str(tmp_path)) for word in LINES[name].split()
    ]
    done = commands.run(tmp_path, words, cpu_s=20)
    assert done.code in (1, 2), done
    assert "Traceback" not in done.output, done
    assert done.output.strip(), done
