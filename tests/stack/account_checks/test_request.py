"""The account is examined for the stack that Terraform would make."""

from __future__ import annotations

from pathlib import Path

import pytest

from account_checks.requested import quoted, stack_request
from benchorch.errors import ConfigError

VARIABLES = (
    Path(__file__).resolve().parents[3] / "infra" / "terraform" / "variables.tf"
).read_text()


def test_without_words_it_is_the_defaults_of_terraform() -> None:
    request = stack_request("lab", VARIABLES, [])
    assert request.fleet
    assert request.markets == ["spot", "on_demand"]
    assert request.head_type in request.types


@pytest.mark.parametrize(
    "word", ['fleet={"g5.xlarge"=2,"r6i.large"=1}', 'fleet={ "g5.xlarge": 2, "r6i.large": 1 }']
)
def test_words_win(word: str) -> None:
    request = stack_request("lab", VARIABLES, [word, "region=eu-west-1", 'markets=["spot"]'])
    assert request.fleet == {"g5.xlarge": 2, "r6i.large": 1}
    assert (request.region, request.markets) == ("eu-west-1", ["spot"])


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("{g5.xlarge=1, r6i.large = 2}", '{"g5.xlarge"=1, "r6i.large" = 2}'),
        ('{"g5.xlarge": 1}', '{"g5.xlarge": 1}'),
        ("[spot,on_demand]", '["spot","on_demand"]'),
        ("{gpu=/own/gpu}", '{"gpu"="/own/gpu"}'),
        ("0 3 * * *", "0 3 * * *"),
        ("m7i.large", "m7i.large"),
    ],
)
def test_quotes_that_a_shell_has_taken_from_a_map_or_a_list_are_put_back(
    typed: str, value: str
) -> None:
    assert quoted(typed) == value


def test_image_parameters_are_those_that_terraform_is_given() -> None:
    word = 'image_parameters={"x86_64":"/own/server", gpu = "/own/gpu"}'
    request = stack_request("lab", VARIABLES, [word])
    assert request.image_parameters == {"x86_64": "/own/server", "gpu": "/own/gpu"}
    assert not stack_request("lab", VARIABLES, []).image_parameters


@pytest.mark.parametrize("word", ["fleet", "fleet={}", "fleet=g5"])
def test_a_fleet_without_machines_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"KEY=VALUE|expected --var"):
        stack_request("lab", VARIABLES, [word])
