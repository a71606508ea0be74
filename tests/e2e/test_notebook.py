"""A real Jupyter kernel: a class typed into a notebook, results that show themselves, two runs."""

import json

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NET = """
import benchorch, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.layer(x).relu()

X = torch.ones(2, 8)
FAST = {
    "stopping": "fixed", "stopping.processes": 2, "stopping.calls": 5, "stopping.window_s": 0.01,
    "protocol.pair_window_s": 0.01, "protocol.pin": False, "protocol.canary_tolerance_ratio": 10.0,
    "profiler": "none", "recorder": "none",
}
"""
pytestmark = pytest.mark.slow  # a kernel that imports torch; unit/frontends/api has the parts
RUN = "results = benchorch.benchmark(Net(), X, 'eager', quiet=True, directory='{}', **FAST)"


def executed(place, *cells):
    """The outputs of each cell, by media type, of a kernel in the place."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(book, timeout=300, resources={"metadata": {"path": str(place.path)}})
    client.execute(env=place.environment)
    return [[dict(one["data"]) for one in cell.outputs if "data" in one] for cell in book.cells]


def test_results_show_themselves_and_two_runs_of_one_module_are_compared(place):
    outputs = executed(
        place, NET, RUN.format("a"), "results", "results.plot()", RUN.format("b"), "results.rows[0]"
    )
    (shown,) = outputs[2]
    assert "eager" in shown["text/plain"]
    assert "<td>eager</td>" in shown["text/html"]
    assert "exported from this process" in shown["text/html"]
    (drawn,) = outputs[3]
    assert any("<svg" in str(content) for content in drawn.values())
    undecided = 4  # as on a busy machine
    told = json.loads(place.run("compare", "a", "b", "--json", code=(0, undecided)).stdout)
    assert told["alone"] == []
    (one,) = told["comparisons"]
    assert "model." not in one["reason"], one
    assert one["verdict"] != "refused", one


def test_a_mistake_in_a_notebook_is_told_in_words(place):
    with pytest.raises(CellExecutionError, match="Did you mean 'onnxruntime'"):
        executed(place, NET, RUN.format("a").replace("eager", "onnxrutime"))


def test_a_run_is_one_output_that_is_updated_and_the_table_is_shown_once(place):
    loud = RUN.format("a").replace("quiet=True, ", "")
    outputs = executed(place, NET, f"{loud}\nresults")
    widget, table = outputs[1]
    assert "items/s" not in widget["text/html"]
    assert "eager" in widget["text/html"]
    assert "<td>eager</td>" in table["text/html"]
