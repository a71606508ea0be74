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
