import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.report.ancestry import ancestry
from benchorch.trace.report.call_chains import call_chains
from benchorch.trace.report.whatif_form import whatif_form
from benchorch.trace.whatif.basis import prepare
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.selector_values import Selector
from benchorch.trace.whatif.transforms import Speedup
from support.analyzed_traces import analysed, trace_file, two_layers


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 3)), max_size=30))
def test_a_chain_holds_the_values_of_all_ancestors_from_the_outside_in(drawn):
    parent = np.array([min(above, at - 1) for at, (above, _) in enumerate(drawn)], dtype=np.int64)
    own = np.array([value for _, value in drawn], dtype=np.int64)
    chain, chains = call_chains(parent, own)
    for event in range(len(drawn)):
        expected, at = [], event
        while at >= 0:
            expected += [own[at]] if own[at] >= 0 else []
            at = parent[at]
        found, link = [], int(chain[event])
        while link:
            link, value = chains[link]
            found.append(value)
        assert found == expected


@pytest.mark.parametrize("name", ["aten::mm", "aten::cat"])
@pytest.mark.parametrize("speed", [1.0, 2.0, 7.0])
def test_what_a_page_can_compute_is_what_the_analysis_predicts(tmp_path, name, speed):
    analysis = analysed(trace_file(tmp_path / "trace.json", two_layers()))
    basis = prepare(analysis)
    form = whatif_form(basis, ancestry(analysis.events, basis.owned))
    expected = predict(basis, [Speedup(select=Selector(op=name), speedup=speed)]).predicted_ns
    assert replayed(form, name, speed) == pytest.approx(expected, abs=len(form["atom"]))


def replayed(form, operator, speed):
    """What the page's script does, in another language."""

    def calls(chain):
        while chain > 0:
            if form["names"][form["chain_operator"][chain]] == operator:
                return True
            chain = form["chain_caller"][chain]
        return False

    rows = form["row_of_atom"]
    ratio = [
        1 / speed if label in form["work"] and calls(chain) else 1.0
        for label, chain in zip(rows["class"], rows["chain"], strict=True)
    ]
    time = [0.0] * form["junctions"]
    for k, (tail, head) in enumerate(zip(form["tail"], form["head"], strict=True)):
        pieces = range(form["first"][k], form["first"][k + 1])
        length = form["fixed_ns"][k] + sum(form["ns"][p] * ratio[form["atom"][p]] for p in pieces)
        time[head] = max(time[head], time[tail] + length)
    return round(time[-1])


def test_work_is_selected_by_module_kernel_or_operator(tmp_path):
    analysis = analysed(trace_file(tmp_path / "trace.json", two_layers()))
    basis = prepare(analysis)
    form = whatif_form(basis, ancestry(analysis.events, basis.owned))
    assert {"encoder.0", "encoder.1"} <= set(form["rows"]["module"])
    assert set(form["rows"]["kernel"]) == {"gemm", "relu"}
    assert {"aten::mm", "aten::relu", "aten::cat"} <= set(form["names"])
    assert form["makespan_ns"] == analysis.dag.makespan_ns
