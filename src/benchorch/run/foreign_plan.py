"""Refusal of plans that others made: what a plan names is trusted only where it is the user's."""

from pathlib import Path

from benchorch.domain.trial import Plan
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.formatting import shell_word
from benchorch.journal.registry import is_own
from benchorch.models import trust


def refuse_foreign(plan: Plan, directory: Path, command: str) -> None:
    """ConfigError for a plan that this user's runs did not leave; what it names is trusted else.

    Args:
        command: what was typed, to be repeated with trust.
    """
    if not is_own(plan.plan_id, directory) and not trust.trusts(directory):
        problem = (
            f"{directory} holds a plan that was made elsewhere or changed since, and a plan names "
            "code, folders and a store. If you trust whoever made it: "
            f"{command} {trust.FLAG} {shell_word(directory)}"
        )
        raise ConfigError([Problem(problem, Correction(added=[trust.FLAG, str(directory)]))])
    trust.grant(*trust.references_of(plan))
