"""Former names of keys and of classes are accepted for one release."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from benchorch.config import renamed_keys
from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import lift_lists
from benchorch.config.renamed_keys import current_name

NOWHERE = "benchorch.recorders.none.Nowhere"


def recorder(tmp_path: Path, text: str, *overrides: str) -> object:
    """The recorder's node of a recipe and the overrides beside it."""
    (tmp_path / "mine.yaml").write_text(text)
    composer = Composer(config_loader([tmp_path]), "mine")
    return composer.session(lift_lists(overrides, composer.groups))["recorder"]


@pytest.mark.parametrize(
    ("text", "present"),
    [
        ("tracking=none", "recorder=none"),
        ("tracking.uri=http://host:5000", "recorder.uri=http://host:5000"),
        ("++tracking.uri=x", "++recorder.uri=x"),
        ("~tracking", "~recorder"),
        ("override /tracking", "override /recorder"),
        ("trackings=1", "trackings=1"),
        ("model.tracking=1", "model.tracking=1"),
    ],
)
def test_an_override_of_a_former_key_has_the_present_one(text: str, present: str) -> None:
    assert current_name(text) == present


def test_the_present_name_is_noted_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed_keys._note.cache_clear()
    # Libraries that earlier tests import may have disabled it.
    monkeypatch.setattr(renamed_keys.LOG, "disabled", False)
    with caplog.at_level(logging.WARNING):
        assert lift_lists(["tracking=none", "tracking.uri=x"], frozenset()) == [
            "recorder=none",
            "recorder.uri=x",
        ]
    assert caplog.messages == ["tracking is now recorder"]


@pytest.mark.parametrize(
    "text",
    [
        "defaults: [config, override tracking: none, _self_]\n",
        "defaults: [config, override /tracking: none, _self_]\n",
        "defaults: [config, override recorder: none, _self_]\n",
    ],
)
def test_a_recipe_may_choose_by_either_name(tmp_path: Path, text: str) -> None:
    assert recorder(tmp_path, text) == {"_target_": NOWHERE}


def test_a_recipe_may_set_a_value_by_the_former_key(tmp_path: Path) -> None:
    text = "defaults: [config, _self_]\ntracking: {experiment: mine}\n"
    node = recorder(tmp_path, text, "tracking.timeout_s=3")
    assert isinstance(node, dict)
    assert (node["experiment"], node["timeout_s"]) == ("mine", 3)


def test_an_option_of_a_users_former_group_is_found(tmp_path: Path) -> None:
    (tmp_path / "tracking").mkdir()
    (tmp_path / "tracking" / "silent.yaml").write_text(f"_target_: {NOWHERE}\n")
    text = "defaults: [config, _self_]\n"
    assert recorder(tmp_path, text, "tracking=silent") == {"_target_": NOWHERE}
    composer = Composer(config_loader([tmp_path]))
    assert "silent" in composer.options("recorder")
