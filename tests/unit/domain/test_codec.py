import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.artifact import Format
from benchorch.domain.codec import decode, encode, from_json, to_json
from benchorch.domain.measurement import Calibration, Observations, ProcessRecord
from benchorch.domain.result import Failure, Outcome, TrialResult
from benchorch.domain.session import Session

times = st.lists(st.integers(min_value=1, max_value=2**50), max_size=20).map(tuple)


@given(durations=times, calls=st.integers(1, 1000), steady=st.none() | st.integers(0, 20))
def test_a_result_survives_json(durations, calls, steady):
    process = ProcessRecord(
        load_s=0.1,
        first_call_s=1.0,
        observations=Observations(
            durations_ns=durations,
            started_ns=durations,
            calls_per_block=calls,
            items_per_call=1,
            preempted=tuple(False for _ in durations),
        ),
        steady_from=steady,
        calibration=Calibration(pair_cost_ns=40.0, step_ns=1.0),
        peak_rss_bytes=1,
        facts={"threads": 2, "nested": {"dtype": "float32"}},
    )
    result = TrialResult(
        trial_id="a",
        labels={"model": "mlp"},
        outcome=Outcome.FAILED,
        failure=Failure(stage="measure", kind="oom", message="too much"),
        processes=(process,),
    )

    assert decode(TrialResult, json.loads(json.dumps(encode(result)))) == result


def test_paths_and_enums_survive_json():
    session = Session(plan_id="p", directory=Path("/x"), store={}, rebuild="always")
    assert decode(Session, encode(session)) == session
    assert encode(Format.ONNX) == "onnx"


def test_old_code_reads_files_with_keys_it_does_not_know():
    data = {**encode(Calibration(pair_cost_ns=1.0, step_ns=2.0)), "added_later": 3}
    assert decode(Calibration, data) == Calibration(pair_cost_ns=1.0, step_ns=2.0)


def test_whole_numbers_become_floats_where_floats_are_declared():
    assert isinstance(decode(Calibration, {"pair_cost_ns": 1, "step_ns": 2}).step_ns, float)


def test_a_tuple_is_a_list_as_it_is_when_it_is_read_again():
    assert encode({"a": ((1, 2), ({"b": (3,)},))}) == {"a": [[1, 2], [{"b": [3]}]]}


def test_data_of_another_shape_is_an_error_that_names_the_place():
    with pytest.raises(ValueError, match=r"step_ns"):
        decode(Calibration, {"pair_cost_ns": 1.0, "step_ns": "x"})


@given(number=st.floats() | st.integers())
def test_every_number_survives_the_text_between_processes(number):
    found = from_json(dict[str, float | int], to_json({"a": number}))["a"]
    assert found == number or (math.isnan(number) and math.isnan(found))


def test_what_is_not_a_domain_value_is_refused():
    with pytest.raises(TypeError, match="object is not a domain value"):
        encode(object())
