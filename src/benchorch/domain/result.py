"""What became of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from benchorch.domain.codec import Json
from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.verdict import Verdict


class Outcome(StrEnum):
    """How a trial ended."""

    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a trial has no result.

    Attributes:
        stage: where it happened: build, verify, measure, schedule.
        kind: its class: ``build_refused``, ``oom``, ``crash:SIGSEGV``, ``timeout``,
            ``missing_package``, ``user_code``, ``disk_full``, ``node_lost`` ...
        message: one sentence with the value seen.
        remedy: the next thing to try, or an empty string.
        detail: traceback or last log lines, for the artifact rather than the table.
    """

    stage: str
    kind: str
    message: str
    remedy: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecord:
    """What preparing the artifact took and where it came from.

    Attributes:
        key: digest of the BuildKey; empty where nothing is kept.
        cache: ``hit``, ``miss``, ``stale`` (rebuild=never) or ``none`` (nothing to keep).
        build_s: seconds of wall time that *this* trial spent building; 0 on a hit.
        original_build_s: seconds the build took when it was made.
        artifact_bytes: size of the artifact.
        model_digest: SHA-256 over names, dtypes, shapes and bytes of the model's state.
        steps: each step's name with its cache state.
    """

    key: str
    cache: str
    build_s: float
    original_build_s: float
    artifact_bytes: int
    model_digest: str
    steps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One line of ``results.jsonl``: what was observed, before anything is derived.

    Schema history: 1, first.
    """

    trial_id: str
    labels: Mapping[str, str]
    outcome: Outcome
    failure: Failure | None = None
    build: BuildRecord | None = None
    parity: Verdict | None = None
    processes: tuple[ProcessRecord, ...] = ()
    stop_reason: str = ""
    environment: Mapping[str, Json] = field(default_factory=dict)
    stages_s: Mapping[str, float] = field(default_factory=dict)
    attempt: int = 1
    baseline_id: str | None = None
    started_at: str = ""
    ended_at: str = ""
    schema_version: int = 1
