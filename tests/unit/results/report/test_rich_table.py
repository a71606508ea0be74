"""A narrow terminal: which columns a table keeps, and how it folds."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from benchorch.results.report.console_table import table_text
from benchorch.results.report.rich_table import rich_table

HEAD = ["conversion", "p50 ms [95 %]", "build", "same model?", "vs eager [95 %]"]
ROW = ["onnxruntime", "not known yet (0.1994 to 0.6406 seen, n = 5)", "11.6 s", "yes 8e-07"]
VERDICT = "1.09× [0.942, 1.27] inconclusive"


def drawn(width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(rich_table([HEAD, [*ROW, VERDICT]], width))
    return console.export_text()


def test_long_cells_fold_before_the_column_that_judges_the_model_goes() -> None:
    shown = drawn(80)
    assert "same model?" in shown
    assert "left out at this width: build" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_it_goes_where_folding_is_not_enough() -> None:
    assert "left out at this width: build, same model?" in drawn(50)


def test_a_name_between_colons_is_no_emoji() -> None:
    assert "script.py:m: eager" in table_text([["trial", "p50"], ["script.py:m: eager", "1"]])


TOKENS = {
    "conversion": "onnxruntime",
    "p50 ms [95 %]": "412.1 [400.2, 431.9]",
    "p99 ms [95 %]": "–",
    "items/s [95 %]": "2.42 [2.31, 2.5]",
    "build": "6.9 s",
    "peak memory": "702.2 MiB",
    "same model?": "yes 9e-07",
    "vs eager [95 %]": "2.16× [2.05, 2.27] faster",
    "TTFT ms [95 %]": "65.95 [64.34, 71.82]",
    "TPOT ms [95 %]": "11.13 [10.9, 11.4]",
    "tokens/s out": "89.9 [87.7, 91.7]",
    "greedy tokens; KL nats": "30/32 from 5; 0.002",
}


def test_a_table_of_tokens_keeps_the_time_per_token_on_one_line() -> None:
    for width, kept in (
        (80, ["conversion", "vs eager [95 %]", "TPOT ms [95 %]"]),
        (100, ["conversion", *list(TOKENS)[6:10]]),
        (140, [*list(TOKENS)[:2], *list(TOKENS)[6:10]]),
    ):
        console = Console(width=width, record=True, file=StringIO())
        console.print(rich_table([[*TOKENS], [*TOKENS.values()]], width))
        lines = [line for line in console.export_text().splitlines() if line.strip()]
        head, _, row = lines[:3]
        assert [title for title in TOKENS if title in head] == kept
        assert "11.13 [10.9, 11.4]" in row


def test_a_table_without_tokens_never_goes_without_its_latency() -> None:
    assert "p50 ms" in drawn(30)
