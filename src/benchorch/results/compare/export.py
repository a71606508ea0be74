"""A run as one small JSON file, without raw series: to commit, to keep in CI, to compare with.

::

    format, schema_version     what this is: "benchorch run", 1
    plan_id, name, skips       of the run
    shared                     what all trials have in common: nodes of their spec, facts of
                               their environment
    trials                     each with its labels, what else its spec and environment hold, the
                               digest of its definition, outcome, parity, build, every metric with
                               its interval, the speed-up with its verdict, warnings, and of each
                               process that counts: its own value of each metric, its pair with
                               the baseline, and the reference workloads around it

Schema history: 1, first.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

from benchorch.domain.artifact import digest_of
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.estimate import Summary
from benchorch.domain.result import TrialResult
from benchorch.domain.trial import ConfigNode, Skip, Trial
from benchorch.errors import ConfigError
from benchorch.files import read_small
from benchorch.journal.chain import UNREADABLE
from benchorch.journal.run_directory import check_id
from benchorch.results.compare.compatibility import definition_of
from benchorch.results.compare.stored_run import ProcessValues, StoredRun, StoredTrial

FORMAT = "benchorch run"
SCHEMA_VERSION = 1
# Down to here one line a key, below it one line in all: an estimate is a line of a diff.
_INDENTED_LEVELS = 4


def to_json(run: StoredRun) -> ConfigNode:
    """The file's content; the same raw series always give the same."""
    specs = [stored.trial.spec for stored in run.trials]
    environments = [s.result.environment for s in run.trials if s.result is not None]
    common = {"spec": _shared(specs), "environment": _shared(environments)}
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "plan_id": run.plan_id,
        "name": run.name,
        "shared": common,
        "trials": [_trial(stored, common) for stored in run.trials],
        "skips": encode([skip.without_spec() for skip in run.skips]),
    }


def text_of(content: ConfigNode) -> str:
    """The file as text."""
    return f"{_text(content, _INDENTED_LEVELS)}\n"


def read(path: Path) -> StoredRun:
    """The run that a file holds; ConfigError where it holds none, or one of another schema."""
    data = _parsed(path)
    version = data.get("schema_version")
    if data.get("format") != FORMAT:
        raise ConfigError([f"{path} is not an exported run. {_EXPORT}"])
    if version != SCHEMA_VERSION:
        problem = f"{path} has schema {version!r}; this version of benchorch reads {SCHEMA_VERSION}"
        raise ConfigError([f"{problem}. {_EXPORT}"])
    try:
        return _run(data, str(path))
    except (LookupError, *UNREADABLE) as error:
        raise ConfigError([f"{path} is damaged: {error!r}. {_EXPORT}"]) from error


_MOST_BYTES = 2**29
_EXPORT = "Export one with: python -m benchorch report RUN --json --output run.json"


def _parsed(path: Path) -> ConfigNode:
    try:
        data = json.loads(
            read_small(path, links=True, most_bytes=_MOST_BYTES), parse_constant=_no_number
        )
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError([f"{path} is not a readable JSON file: {error}. {_EXPORT}"]) from error
    return data if isinstance(data, dict) else {}


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _shared(mappings: Sequence[ConfigNode]) -> ConfigNode:
    """The items that all mappings have."""
    first = mappings[0] if mappings else {}
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in mappings)
    }


def _own(mapping: ConfigNode, shared: ConfigNode) -> ConfigNode:
    return {key: value for key, value in mapping.items() if key not in shared}


def _definition_digest(trial: Trial) -> str:
    try:
        return digest_of(dict(definition_of(trial.spec)))
    except (ValueError, RecursionError) as error:
        problem = f"trial {trial.trial_id}: its configuration in the plan is damaged ({error})."
        raise ConfigError([problem]) from error


def _trial(stored: StoredTrial, common: Mapping[str, ConfigNode]) -> ConfigNode:
    trial = stored.trial
    planned: dict[str, Json] = {
        "trial_id": trial.trial_id,
        "labels": dict(trial.labels),
        "baseline_id": trial.baseline_id,
        "baseline_conversion": encode(trial.baseline_conversion),
        "definition_digest": _definition_digest(trial),
        "spec": _own(trial.spec, common["spec"]),
    }
    if stored.result is None or stored.summary is None:
        return {**planned, "result": None}
    result = cast(ConfigNode, encode(replace(stored.result, environment={}, labels={})))
    dropped = ("trial_id", "labels", "processes", "environment", "baseline_id")
    return {
        **planned,
        "environment": _own(stored.environment, common["environment"]),
        "result": {key: value for key, value in result.items() if key not in dropped},
        **cast(ConfigNode, encode(stored.summary)),
        "evidence": encode(stored.evidence),
    }


def _run(data: ConfigNode, reference: str) -> StoredRun:
    common = cast(Mapping[str, ConfigNode], data["shared"])
    check_id(str(data["plan_id"]))  # a file of a site is called so
    trials = [
        _stored(node, common, str(data["plan_id"]))
        for node in cast(Sequence[ConfigNode], data["trials"])
    ]
    if not any(stored.result for stored in trials):
        raise ConfigError([f"{reference}: no trial of this run has a result."])
    return StoredRun(
        reference=reference,
        plan_id=str(data["plan_id"]),
        name=str(data["name"]),
        trials=tuple(trials),
        skips=decode(tuple[Skip, ...], data["skips"]),
    )


def _stored(node: ConfigNode, common: Mapping[str, ConfigNode], plan_id: str) -> StoredTrial:
    spec = {**common["spec"], **cast(ConfigNode, node["spec"])}
    trial = decode(Trial, {**node, "spec": spec})
    if node["result"] is None:
        return StoredTrial(plan_id=plan_id, trial=trial)
    own = cast(ConfigNode, node["environment"])
    result = {
        **cast(ConfigNode, node["result"]),
        "trial_id": trial.trial_id,
        "labels": trial.labels,
        "baseline_id": trial.baseline_id,
        "environment": {**common["environment"], **own},
    }
    return StoredTrial(
        plan_id=plan_id,
        trial=trial,
        result=decode(TrialResult, result),
        summary=decode(Summary, node),
        evidence=decode(ProcessValues, node["evidence"]),
    )


def _text(value: Json, levels: int, indent: str = "") -> str:
    """JSON for people: indented to so many levels, then on one line."""
    if not levels or not value or not isinstance(value, Mapping | list | tuple):
        return json.dumps(value, allow_nan=False)
    deeper = f"{indent}  "
    if isinstance(value, Mapping):
        items = (f"{json.dumps(key)}: {_text(v, levels - 1, deeper)}" for key, v in value.items())
        return f"{{\n{deeper}{f',{chr(10)}{deeper}'.join(items)}\n{indent}}}"
    entries = (_text(item, levels - 1, deeper) for item in value)
    return f"[\n{deeper}{f',{chr(10)}{deeper}'.join(entries)}\n{indent}]"
