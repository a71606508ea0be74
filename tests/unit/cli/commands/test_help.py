"""What `benchorch help` says of a name."""

from __future__ import annotations

import re

import pytest

from benchorch.cli.commands import help as help_command
from benchorch.config.descriptions import groups, option_keys, options
from benchorch.errors import ConfigError


@pytest.mark.parametrize("group", groups())
def test_each_key_of_each_option_is_described(group: str) -> None:
    for name in {key.name for option in options(group) for key in option_keys(group, option)}:
        told = help_command.run.reply([name]).text
        assert re.search(rf"^{re.escape(name)}[=.]", told, re.MULTILINE)


def test_a_key_that_the_default_option_lacks_is_described_with_the_options_that_have_it() -> None:
    told = help_command.run.reply(["stopping.processes"]).text.splitlines()
    assert told == [
        "stopping.processes=1   (stopping=corpus, quick)",
        "stopping.processes=10  (stopping=fixed)",
    ]


def test_a_group_is_described_with_its_options_and_the_keys_of_its_default() -> None:
    told = help_command.run.reply(["scenario"]).text
    assert "scenario=server" in told
    assert "scenario.rate_per_s" not in told


@pytest.mark.parametrize("name", ["", "nosuch", "nosuch.rate_per_s", "scenario.rate_per"])
def test_what_is_neither_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no command, group or key"):
        help_command.run.reply([name])
