"""``benchorch --help``: the commands, then every key by topic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from benchorch.config.composer import Composer
from benchorch.domain.codec import Json
from benchorch.domain.reply import Reply

COMMANDS = """\
benchorch: which conversion of a PyTorch model serves it fastest, and is it still the same model?

  python -m benchorch model=bert hardware=local             one model, the default conversions
  python -m benchorch model=mlp conversion=[eager,onnxruntime]       a list is a matrix
  python -m benchorch -m model=mlp,bert workload.batch_size=1,8      a sweep, one plan
  python -m benchorch recipes/bert.yaml workload.seq_len=256         a declared matrix
  python -m benchorch init mine.yaml      a recipe for a module of your own, written and planned
  python -m benchorch script my_script.py  the models in any script, found and benchmarked
  python -m benchorch plan ...            only what would run (--json for programs)
  python -m benchorch conversions [NAME]    what can be tried, and whether it can run here
  python -m benchorch backends [NAME]       machines, sizes and what runs models there, by name
  python -m benchorch doctor              is this machine fit to measure on?
  python -m benchorch cache|record|ui     each with its own --help
  python -m benchorch report RUN          a stored run's table again; --json to keep it small
  python -m benchorch check RUN           does a stored run hold? recomputed from its raw series
  python -m benchorch compare A B         what became faster or slower between two runs
  python -m benchorch gate --baseline A --max-regression 2%          the same for CI
  python -m benchorch submit ...          a run that outlives the terminal, here or on a head
  python -m benchorch status|logs|cancel [RUN]   progress, logs and end of runs
  python -m benchorch resume RUN          go on where a run was ended
  python -m benchorch keep|fetch RUN      a run's results in a bucket, and back from it

  --cfg job  the resolved configuration       -m, --multirun  cross comma-separated values
  --config-dir DIR  your own groups first     --hydra-help    Hydra's own flags
  --allow-skips  exit with 0 although a requested conversion cannot run"""

SECTIONS: Mapping[str, Sequence[str]] = {
    "What is measured": ("model", "workload", "matrix", "each"),
    "How it is converted, called and compared": (
        "conversion",
        "scenario",
        "stopping",
        "protocol",
        "parity",
        "baseline",
        "profile",
        "objective",
    ),
    "Where it runs": ("hardware", "executor", "limits"),
    "What is kept": ("store", "recorder", "keep_at", "rebuild", "resume", "name"),
}


def run(overrides: Sequence[str], composer: Composer) -> Reply:
    """Every group with its options and every key with its value, as these overrides leave them."""
    config = composer.session(overrides)
    listed = {key for keys in SECTIONS.values() for key in keys}
    sections = {**SECTIONS, "Also": tuple(key for key in config if key not in listed)}
    parts = [COMMANDS]
    for title, keys in sections.items():
        if keys:
            parts.append(f"== {title} ==")
            parts += [_entry(key, config.get(key), composer) for key in keys]
    data = {group: composer.options(group) for group in sorted(composer.groups)}
    return Reply(text="\n\n".join(parts), data=cast(Json, {"options": data, "keys": config}))


def _entry(key: str, value: Json, composer: Composer) -> str:
    import yaml

    if not isinstance(value, Mapping) and key not in composer.groups:
        return f"{key}: {json.dumps(value)}"
    text = yaml.safe_dump({key: value}, sort_keys=False, default_flow_style=None, width=88).rstrip()
    if key not in composer.groups:
        return text
    return f"{key}: {', '.join(composer.options(key))}\n{_indented(text)}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
