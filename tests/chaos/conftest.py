"""Seeds of the drills, and a table of how they went."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest

SEEDS = "BENCHORCH_CHAOS_SEEDS"
TABLE = pytest.StashKey[dict[str, dict[int, str]]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(1, 1 + int(os.environ.get(SEEDS, "1"))))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    spec = getattr(item, "callspec", None)
    if spec is not None and "seed" in spec.params and (call.when == "call" or not report.passed):
        table = item.config.stash.setdefault(TABLE, defaultdict(dict))
        name = getattr(item, "originalname", item.name)
        outcome = "ok" if report.passed else report.outcome.upper()
        table[name][spec.params["seed"]] = f"{outcome} {report.duration:.0f} s"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    table = config.stash.get(TABLE, None)
    if not table or SEEDS not in os.environ:
        return
    seeds = sorted({seed for ran in table.values() for seed in ran})
    terminalreporter.write_line("\n| drill |" + "".join(f" seed {seed} |" for seed in seeds))
    terminalreporter.write_line("|---|" + "---|" * len(seeds))
    for name, ran in table.items():
        words = name.removeprefix("test_").replace("_", " ")
        cells = "".join(f" {ran.get(seed, '-')} |" for seed in seeds)
        terminalreporter.write_line(f"| {words} |{cells}")
