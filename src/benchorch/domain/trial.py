"""Trials, skips and the plan that holds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchorch.domain.codec import Json
from benchorch.domain.price import PriceSnapshot

ConfigNode = Mapping[str, Json]


def node_of(parent: ConfigNode, key: str) -> ConfigNode:
    """The mapping at a key of a node; empty where there is none."""
    node = parent.get(key)
    return node if isinstance(node, Mapping) else {}


def value_at(node: Json, path: Sequence[str]) -> Json:
    """What lies at a path of keys; None where nothing does."""
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def with_value(node: ConfigNode, path: Sequence[str], value: Json) -> ConfigNode:
    """The same node with one value changed; what does not change is shared."""
    first, *rest = path
    inner = with_value(node_of(node, first), rest, value) if rest else value
    return {**node, first: inner}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One resolved cell: the unit of work.

    Attributes:
        trial_id: first 16 hex digits of the digest of `spec`: same content, same identity.
        labels: short names for people: model, conversion, hardware, scenario, and each swept key.
        spec: the resolved configuration, complete: model, workload, conversion, hardware,
            scenario, stopping, protocol, parity, limits.
        baseline_id: the trial this one is compared with, or None if it is itself a baseline.
        baseline_conversion: that trial's conversion; all else of its spec is this trial's own.
        candidates: how many trials of the plan are compared with its baseline, this one among them.
        is_control: whether it is a baseline whose processes meet a second copy of itself: an A/A
            control of the table's comparisons.
        build_steps: only the first so many steps of its conversion are built, for trials that
            share them, and nothing is measured; None for a trial proper.
    """

    trial_id: str
    labels: Mapping[str, str]
    spec: Mapping[str, Json]
    baseline_id: str | None = None
    baseline_conversion: ConfigNode | None = None
    candidates: int = 1
    is_control: bool = False
    build_steps: int | None = None

    @property
    def hardware(self) -> ConfigNode:
        """The node of its machine."""
        return node_of(self.spec, "hardware")

    @property
    def hardware_kind(self) -> str:
        """The kind of its machine, e.g. ``g5.xlarge``."""
        return str(self.hardware.get("kind", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A cell that will not run.

    Attributes:
        labels: as in `Trial`.
        reason: one sentence.
        remedy: what would enable it, or an empty string.
        requested: whether it was requested by name and nothing else stands for it: a run that
            skips it has not done what was requested.
        spec: as in `Trial`; empty where none could be made, and in plans of earlier releases.
    """

    labels: Mapping[str, str]
    reason: str
    remedy: str = ""
    requested: bool = False
    spec: Mapping[str, Json] = field(default_factory=dict)

    def without_spec(self) -> ConfigNode:
        """All that people read of it."""
        return {
            "labels": self.labels,
            "reason": self.reason,
            "remedy": self.remedy,
            "requested": self.requested,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All trials and skips of one invocation.

    Attributes:
        plan_id: names the invocation; also the tag by which its runs are found.
        name: what the invocation is called in the tracker.
        trials: in the order in which they were declared.
        session: settings shared by all trials: executor, store, tracking (the recorder), rebuild.
        prices: by which all of them are judged; None where nothing is paid for.
        notes: what is worth knowing before it starts, a sentence each.
        settings: dotted keys of trials that its command lines set: where what is added later
            differs in one, labels name it.
    """

    plan_id: str
    name: str
    trials: tuple[Trial, ...]
    skips: tuple[Skip, ...]
    session: Mapping[str, Json]
    prices: PriceSnapshot | None = None
    notes: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    schema_version: int = 1

    @property
    def recorder(self) -> ConfigNode:
        """The recorder's node; stored plans keep the key of the first release."""
        return node_of(self.session, "tracking")
