"""Write the pages of docs/reference/ that follow from the code, and the schema of recipes.

    python scripts/write_reference.py [--check]

`make reference` runs it. ``--check`` writes nothing and fails where a page is not current.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import os
import pkgutil
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import recipe_schema
from benchorch.config.descriptions import heading, keys_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
CONF = ROOT / "conf"
RECIPES = ROOT / "recipes"
NOTE = "<!-- Written by scripts/write_reference.py (make reference): do not edit. -->"
CACHE_COMMANDS = ("list", "show", "explain", "delete", "report", "trim", "location")
WITHOUT_KEYS = {  # too many to list, or described elsewhere
    "conversion": "See [Conversions, tried](conversions-table.md).",
    "hardware": "Sizes and prices: [Costs](../cloud/costs.md#hardware).",
    "model": "See [Models](../guides/models.md).",
}
ATTRIBUTE = re.compile(r"^(?P<names>\w+(?:, \w+)*): (?P<text>.*)$")


def main() -> int:
    """Write or check the pages; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, report stale pages")
    options = parser.parse_args()
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if not options.check:
                path.write_text(text)
    if stale:
        print(f"{'stale' if options.check else 'written'}: {', '.join(stale)}")
    return 1 if stale and options.check else 0


def pages() -> Mapping[Path, str]:
    """The text of each page, and of the schema of recipes."""
    schema = recipe_schema.schema(CONF, _meanings)
    texts = {
        "cli.md": cli(),
        "configuration.md": configuration(),
        "metrics.md": metrics(),
        "recipes.md": recipes(schema),
    }
    described = {RECIPES / "recipe.schema.json": recipe_schema.text(schema)}
    return {PAGES / name: text for name, text in texts.items()} | described


def cli() -> str:
    """Every command's own help."""
    from benchorch.cli.catalog import COMMANDS

    os.environ["COLUMNS"] = "100"
    parts = [
        f"# Command line\n\n{NOTE}",
        "A first word that is no command begins a run: `key=value`, or a recipe's file.",
        f"```text\n{_help()}\n```",
    ]
    for name in sorted(COMMANDS):
        parts.append(f"## {name}\n\n```text\n{_help(name)}\n```")
        if name == "cache":
            parts += [
                f"### cache {sub}\n\n```text\n{_help('cache', sub)}\n```" for sub in CACHE_COMMANDS
            ]
    return "\n\n".join(parts) + "\n"


def _help(*words: str) -> str:
    from benchorch.cli.main import run

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        run([*words, "--help"])
    return shown.getvalue().rstrip()


def configuration() -> str:
    """Every group with its options, and every key with its default."""
    root = yaml.safe_load((CONF / "config.yaml").read_text())
    chosen = {
        k: v for entry in root["defaults"] if isinstance(entry, dict) for k, v in entry.items()
    }
    groups = [name for name in chosen if (CONF / name).is_dir()]
    parts = [
        f"# Configuration\n\n{NOTE}",
        "Every key is an override, for example `scenario.rate_per_s=100`; a list of options or of "
        "sizes of `workload` becomes an axis; `-m KEY=a,b` crosses values of any key of a trial. "
        "`python -m benchorch ... --cfg job` prints the resolved configuration.",
        "## Keys of every run\n\n" + _table(CONF / "config.yaml", skip=("defaults", "hydra")),
    ]
    for group in groups:
        files = sorted(path for path in (CONF / group).glob("*.yaml") if path.stem[0] != "_")
        default = f"`{chosen[group]}`" if chosen[group] else "the list of the hardware"
        rows = [f"| `{path.stem}` | {_heading(path)} |" for path in files]
        table = "\n".join(["| option | |", "|---|---|", *rows])
        parts.append(f"## {group}\n\nDefault: {default}.\n\n{table}")
        if group in WITHOUT_KEYS:
            parts.append(WITHOUT_KEYS[group])
            continue
        tables = {path.stem: _table(path) for path in files}
        parts += [f"### {group}={name}\n\n{keys}" for name, keys in tables.items() if keys]
    return "\n\n".join(parts) + "\n"


def _heading(path: Path) -> str:
    """The comment that a file begins with."""
    return _cell(heading(path))


def _table(path: Path, skip: tuple[str, ...] = ()) -> str:
    """A row for each key of a file: its default and what its comment or its class states."""
    stated = _attributes(path)
    rows = []
    for key in keys_of(path):
        if key.name.partition(".")[0] not in (*skip, "_target_", "defaults"):
            meaning = _cell(key.meaning or stated.get(key.name, ""))
            rows.append(f"| `{key.name}` | `{key.default}` | {meaning} |")
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) if rows else ""


def _attributes(path: Path) -> dict[str, str]:
    """What the docstring of a file's class states of its parameters, its bases' too."""
    node = yaml.safe_load(path.read_text())
    if not isinstance(node, dict) or "_target_" not in node:
        return {}
    stated: dict[str, str] = {}
    for base in reversed(pkgutil.resolve_name(node["_target_"]).__mro__):
        names: tuple[str, ...] = ()
        for line in inspect.cleandoc(base.__doc__ or "").splitlines():
            if match := ATTRIBUTE.match(line.strip()):
                names = tuple(match["names"].split(", "))
                stated |= dict.fromkeys(names, match["text"])
            elif not line.strip():
                names = ()
            for name in names if not match else ():
                stated[name] += f" {line.strip()}"
    return stated


def _meanings(path: Path) -> dict[str, str]:
    """What a file's comments, or else its class, state of its keys."""
    comments = {key.name: key.meaning for key in keys_of(path) if key.meaning}
    return {**_attributes(path), **comments}


def recipes(schema: Mapping[str, Any]) -> str:
    """How a recipe is written, and what it can hold."""
    written = (Path(__file__).parent / "recipes_intro.md").read_text()
    parts = (f"# Recipes\n\n{NOTE}", written.strip(), recipe_schema.page(schema, CONF, RECIPES))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`").strip()


def metrics() -> str:
    """Every metric with its meaning and the way it should go."""
    from benchorch.domain.estimate import METRIC_GROUPS
    from benchorch.results.compare.metric_kinds import SPEEDUP, higher_is_better

    parts = [
        f"# Metrics\n\n{NOTE}",
        "A metric is named `<quantity>_<unit>/<statistic>`. Each has a value, n, and an interval\n"
        "if n allows one; MLflow stores its ends as `.../low` and `.../high`. What was not\n"
        "measured is absent, never 0. [Measurement](../measuring/measurement.md) and\n"
        "[Resources](../measuring/resources.md) describe how each is obtained.",
    ]
    better = {True: "higher", False: "lower", None: "–"}
    compared = {SPEEDUP: "the baseline's latency over the candidate's, from paired measurements"}
    for title, group in {**METRIC_GROUPS, "Comparison": compared}.items():
        rows = [f"| `{n}` | {text} | {better[higher_is_better(n)]} |" for n, text in group.items()]
        head = [f"## {title}\n", "| metric | meaning | better |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
