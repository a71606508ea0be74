"""Figures of generated tokens, from times that the test writes down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.price import Market, Price
from benchorch.domain.result import Outcome, TrialResult
from benchorch.results.metrics.generation import generation_metrics
from benchorch.results.metrics.summary import summarise
from support.recorded_trials import process_record

MS = 1_000_000
FACTS = {"prompt_tokens": 50, "new_tokens": 3, "kv_cache_bytes_per_token": 2048}


def process(*calls: tuple[int, ...], steady_from: int = 0, batch: int = 2):
    """One process whose calls have tokens after so many milliseconds each."""
    record = process_record([sum(call) * MS for call in calls], FACTS)
    observed = replace(
        record.observations,
        items_per_call=batch,
        token_ns=tuple(each * MS for call in calls for each in call),
        tokens_per_call=len(calls[0]),
    )
    return replace(record, observations=observed, steady_from=steady_from)


def test_first_token_and_later_tokens_are_told_apart() -> None:
    found = generation_metrics([process((100, 10, 20), (120, 12, 14), (110, 11, 11))])
    assert found["ttft_ms/p50"].value == 110
    assert found["tpot_ms/p50"].value == 13  # of 15, 13 and 11
    assert found["inter_token_latency_ms/p50"].value == 11.5
    assert found["kv_cache_bytes_per_token/total"].value == 2048


def test_rates_count_the_tokens_of_the_whole_batch() -> None:
    found = generation_metrics([process((100, 10, 30), batch=4)])
    assert found["prefill_tokens_per_s/mean"].value == pytest.approx(4 * 50 / 0.1)
    assert found["decode_tokens_per_s/mean"].value == pytest.approx(4 * 2 / 0.04)


def test_calls_before_the_steady_state_do_not_count() -> None:
    found = generation_metrics([process((900, 90, 90), (100, 10, 10), steady_from=1)])
    assert found["ttft_ms/p50"].value == 100
    assert found["tpot_ms/p50"].value == 10


def test_the_process_is_the_unit_of_intervals() -> None:
    found = generation_metrics([process(*[(100 + n, 10, 10)] * 9) for n in range(5)])
    first = found["ttft_ms/p50"]
    assert (first.n, first.seen, first.value) == (5, (100, 104), 102)
    assert first.low is not None
    assert first.high is not None
    assert first.low < 102 < first.high


def test_a_tail_needs_enough_tokens_in_every_process() -> None:
    few = generation_metrics([process(*[(100, 10, 10)] * 5)])
    assert "inter_token_latency_ms/p99" not in few
    many = generation_metrics([process((100, *[10] * 400))])
    assert many["inter_token_latency_ms/p99"].value == 10


def test_a_single_new_token_has_no_time_per_further_one() -> None:
    found = generation_metrics([process((100,))])
    assert "ttft_ms/p50" in found
    assert "tpot_ms/p50" not in found


def test_other_calls_have_no_tokens() -> None:
    assert generation_metrics([process_record([MS])]) == {}


def test_tokens_of_a_machine_without_a_price_have_a_note_that_says_how_to_give_one() -> None:
    def notes(result: TrialResult) -> list[str]:
        return [each for each in summarise(result, None).warnings if "dollars" in each]

    generated = trial(process((100, 10, 10)))
    (note,) = notes(generated)
    assert "'+pricing.usd_per_hour={local: 0.2}'" in note
    price = Price(
        **{"kind": "local", "market": Market.ON_DEMAND, "usd_per_hour": 0.2},
        **{"region": "", "as_of": "2026-11-27", "source": "config"},
    )
    assert notes(replace(generated, prices=(price,))) == []
    assert notes(trial(process_record([MS]))) == []


def trial(record: ProcessRecord) -> TrialResult:
    return TrialResult(
        **{"trial_id": "t", "outcome": Outcome.OK, "processes": (record,)},
        labels={"hardware_kind": "local"},
    )
