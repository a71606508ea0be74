"""The table of facts: every line has a source, and those of service models are read again."""

from __future__ import annotations

import re
from datetime import date

import pytest
import yaml

from benchorch.hardware.aws_account.facts import KNOWN
from support.aws_emulator.images import FACTS, facts
from support.service_models import value_of

TABLE = facts()
MODEL = [fact for fact in TABLE.values() if fact.known == "model"]
CHECKS = {
    *("bucket", "budget", "clock", "images", "key", "none", "offers", "permissions", "python"),
    *("quotas", "roles", "terraform", "accelerators", "networks", "plan", "access"),
}


@pytest.mark.parametrize("fact", TABLE.values(), ids=TABLE)
def test_a_fact_says_how_it_is_known(fact) -> None:
    assert fact.known in KNOWN
    assert fact.statement.endswith(".")
    if fact.known == "unverified":
        assert fact.source is None
        assert fact.check in CHECKS
    else:
        assert re.match(r"https://\S+\.\S+/\S*$", fact.source or "")
        assert date(2026, 11, 23) <= date.fromisoformat(fact.read or "")
    assert (fact.model is not None) == (fact.known == "model")
    assert fact.check is None or fact.check in CHECKS


def test_an_identifier_stands_once() -> None:
    keys = re.findall(r"^([\w.]+):$", FACTS.read_text(), re.MULTILINE)
    assert len(keys) == len(set(keys)) == len(yaml.safe_load(FACTS.read_text()))


@pytest.mark.parametrize("fact", MODEL, ids=[fact.identifier for fact in MODEL])
def test_a_fact_of_a_service_model_is_what_the_model_has(fact) -> None:
    kind = fact.model.split()[0]
    has = value_of(fact.model.replace("enum-contains", "enum").replace(":", ""))
    if kind == "text":
        assert has, f"the model's documentation lacks: {fact.model}"
    elif fact.model.endswith("enum-contains") or not isinstance(fact.value, list):
        wanted = fact.value if isinstance(fact.value, list) else [fact.value]
        assert set(wanted) <= set(has) if isinstance(has, list) else wanted == [has]
    else:
        assert sorted(fact.value) == sorted(has)
