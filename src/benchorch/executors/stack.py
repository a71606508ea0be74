"""Trials on an AWS stack, from outside it: sent to its head, followed through its bucket.

The sweep belongs to the head. Whoever sends it may leave; the same command follows it again, and
brings its results home.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast, final

from benchorch.config.components import TARGET, make
from benchorch.config.directories import builtin_directory
from benchorch.domain.codec import Json
from benchorch.domain.result import TrialResult
from benchorch.domain.session import Event, Session
from benchorch.domain.spending import HEAD_KIND, Spending
from benchorch.domain.trial import ConfigNode, Trial
from benchorch.errors import ExecutorError
from benchorch.executors.node_packages import bundled_packages, distributions, lock_name
from benchorch.executors.scheduling.capacity import MarketPolicy
from benchorch.executors.scheduling.file_transfer import FolderContent, collect_files
from benchorch.executors.sent_sweep import (
    DIRECTORY,
    STOPPED,
    SentSweep,
    cancel_command,
    digest_of,
    is_unfetched,
    look_command,
    new_name,
    plan_to_send,
    start_command,
    unfetched,
)
from benchorch.files import read_json, write_json
from benchorch.formatting import plural
from benchorch.host.environment import is_installed
from benchorch.host.packages import install_command
from benchorch.interfaces.executor import Emit, Executor, TrialRunner, Way
from benchorch.interfaces.stack import (
    CommandEnd,
    Head,
    Readiness,
    Refusal,
    Stack,
    StackError,
    StackFacts,
    Stacks,
)
from benchorch.journal.run_directory import SeriesError, is_id
from benchorch.units import format_bytes

T = TypeVar("T")

RECORD = "stack.json"
"""File in the run's directory with the stack and the name of the sweep."""

LOOK_S = 5.0
"""Polling interval of the bucket; two requests each time."""

HEAD_LOOK_S = 30.0
"""Polling interval of the head's state in EC2."""

HEAD_S = 900.0
"""How long a head may take until it takes commands."""

SILENT_S = 300.0
"""Seconds without a change of a coordinator's status after which its head is asked for it."""

ABSENT = 3
"""Looks without a head that was there, after which it has ended."""

PATIENCE_S = 900.0
"""For so long requests may fail in a way that passes."""


@cache
def _stacks() -> Stacks:
    return make({TARGET: "benchorch.hardware.aws_stack.AwsStacks"}, Stacks, "executor.stack")


@cache
def found_stack(name: str | None) -> Stack | StackError | None:
    """The stack, or the error that prevents finding it; one query per process."""
    try:
        return _stacks().find(name)
    except StackError as error:
        return error


@cache
def _lacks_head(stack: str | None) -> bool:
    """Whether no head runs, so far as can be asked; one query per process."""
    found = found_stack(stack)
    try:
        return not isinstance(found, Stack) or found.head() is None
    except StackError:  # whoever runs the plan learns why
        return True


@cache
def _stack_packages(stack: str | None, lock: str | None) -> Mapping[str, str] | None:
    """The distributions of a lock that the stack has published; None where it cannot be read."""
    found = found_stack(stack)
    if not isinstance(found, Stack) or lock is None:
        return None
    try:
        text = found.lock(lock)
    except StackError:  # a plan does without; whoever runs it learns why
        return None
    return distributions(text) if text else None


def left_running(directory: Path) -> SentSweep | None:
    """The sweep of a run's directory that goes on on a stack, or None; StackError."""
    record = _record(directory)
    if record is None:
        return None
    found = found_stack(record.stack)
    if isinstance(found, StackError):
        raise found
    if found is None:
        return None
    sweep = SentSweep(
        stack=found, name=record.sweep, directory=directory, before_usd=record.before_usd
    )
    return None if sweep.status().get("ended_at") else sweep


class _Record(NamedTuple):
    """A sent sweep, as a run's directory notes it.

    Attributes:
        before_usd: what the run had spent before.
    """

    stack: str
    sweep: str
    before_usd: float


def _record(directory: Path) -> _Record | None:
    """Record in a run's directory of a sent sweep, or None."""
    try:
        record = read_json(directory / RECORD)
        before_usd = float(record.get("before_usd", 0.0))  # older records have none
        found = _Record(str(record["stack"]), str(record["sweep"]), before_usd)
        return found if is_id(found.sweep) else None  # it gets into commands on the head
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def cancel(sweep: SentSweep) -> str:
    """End a sweep on its head and return the head's output. StackError."""
    head = sweep.stack.head()
    if head is None:
        return "No head is running."
    command_id = sweep.stack.send(head.machine, cancel_command(sweep.name))
    while (end := sweep.stack.end_of(head.machine, command_id)) is None:
        time.sleep(LOOK_S)
    return end.text


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StackExecutor(Executor):
    """Runs trials on a stack that the account's record names.

    Attributes:
        stack: its name; None for the only one of the account.
        market: ``spot``, ``on_demand`` or ``spot_then_on_demand``: where nodes are launched.
        most: nodes of a kind at a time; None for as many as the stack allows.
        wait_s: seconds to wait for the first node of a kind.
    """

    stack: str | None = None
    market: str = "spot_then_on_demand"
    most: int | None = None
    wait_s: float = 900.0

    def unreachable(self, hardware_kind: str) -> str | None:
        """Why the stack cannot launch this hardware, or None."""
        found = found_stack(self.stack)
        if found is None and not is_installed("boto3"):
            return f"a stack is reached by boto3, which {install_command(['boto3'])} brings."
        if found is None:
            return "no AWS credentials were found."
        if isinstance(found, StackError):
            return str(found)
        if hardware_kind in found.facts.kinds:
            return None
        listed = ", ".join(sorted(found.facts.kinds))
        return f"the fleet of stack {found.facts.name} is {listed}; make provision can add to it."

    def way(self, hardware_kind: str) -> Way:
        """The stack, if it can launch the kind."""
        return Way.STACK if self.unreachable(hardware_kind) is None else Way.NONE

    def launches(self, hardware_kind: str) -> bool:
        """All of them."""
        del hardware_kind
        return True

    def launches_head(self) -> bool:
        """Whether no head runs, or there is no stack yet."""
        return _lacks_head(self.stack)

    def packages(self, hardware_kind: str) -> Mapping[str, str] | None:
        """Packages in the stack's lock for such nodes, else in this version's lock."""
        return _stack_packages(self.stack, lock_name(hardware_kind)) or bundled_packages(
            hardware_kind
        )

    def preflight(self, hardware_kinds: Sequence[str]) -> Sequence[Readiness]:
        """Readiness in the stack's account and region."""
        found = found_stack(self.stack)
        kinds = [kind for kind in hardware_kinds if self.unreachable(kind) is None]
        if not isinstance(found, Stack) or not kinds:
            return ()
        return found.preflight(sorted(kinds), MarketPolicy(self.market).markets)

    def archive_url(self) -> str | None:
        """The stack's."""
        found = found_stack(self.stack)
        return found.facts.results_url if isinstance(found, Stack) else None

    def region(self) -> str | None:
        """The stack's."""
        found = found_stack(self.stack)
        return found.facts.region if isinstance(found, Stack) else None

    def run(self, trials: Sequence[Trial], work: TrialRunner, emit: Emit) -> Iterator[TrialResult]:
        """Each trial's result, as the stack's bucket has it."""
        found = found_stack(self.stack)
        session = getattr(work, "session", None)
        if not isinstance(found, Stack) or not isinstance(session, Session):
            raise ExecutorError(self.unreachable(trials[0].hardware_kind) or "There is no session.")
        following = _Following(
            executor=self, stack=found, trials=trials, session=session, emit=emit
        )
        yield from following.results()

    def head_executor(self, facts: StackFacts) -> ConfigNode:
        """The executor of the stack's head."""
        import yaml

        text = (builtin_directory("conf") / "executor" / "ec2.yaml").read_text(encoding="utf-8")
        found = yaml.safe_load(text).items()
        node = {k: v for k, v in found if k != "defaults" and "${" not in str(v)}
        own: ConfigNode = {"market": self.market, "most": self.most, "wait_s": self.wait_s}
        return {**node, **own, "starts": facts.starts_url}


@final
@dataclass(slots=True, kw_only=True)
class _Following:
    """A sweep that is sent or found, and followed."""

    executor: StackExecutor
    stack: Stack
    trials: Sequence[Trial]
    session: Session
    emit: Emit
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    failing_since_s: float | None = None
    told: dict[str, str] = field(default_factory=dict)
    spending: Spending | None = None
    head_s: float | None = None
    begun: bool = False

    def results(self) -> Iterator[TrialResult]:
        record = self._recorded()
        if record is None:
            sweep = self._found_or_sent()
        else:
            sweep = self._continued(record.sweep, record.before_usd)
        if not sweep.status().get("ended_at"):
            self._ensure_begun(sweep)
        yield from self._follow(sweep)

    def _found_or_sent(self) -> SentSweep:
        """The sweep of these trials and files that was left, or a new one."""
        files = collect_files(self.session, self.trials)
        digest = digest_of(self.trials, files)
        name = unfetched(self.stack, digest)
        if name is not None:
            return self._continued(name, self.session.spending.spent_usd)
        name = new_name(self.stack, self.session.plan_id, digest)
        sweep = self._noted(name, self.session.spending.spent_usd)
        self._check_machines()
        self._send(sweep, files.content)
        return sweep

    def _continued(self, name: str, before_usd: float) -> SentSweep:
        sweep = self._noted(name, before_usd)
        self._say(f"continues sweep {name}, which was sent before")
        return sweep

    def _noted(self, name: str, before_usd: float) -> SentSweep:
        """A sweep, noted in the run's directory as the one that it follows."""
        facts, directory = self.stack.facts, self.session.directory
        record: Json = {
            "stack": facts.name,
            "region": facts.region,
            "sweep": name,
            "before_usd": before_usd,
        }
        write_json(directory / RECORD, record)
        return SentSweep(stack=self.stack, name=name, directory=directory, before_usd=before_usd)

    def _recorded(self) -> _Record | None:
        """The sweep that this run sent before it was resumed, unless it was followed to its end."""
        record = _record(self.session.directory)
        if record is None or record.stack != self.stack.facts.name:
            return None
        return record if is_unfetched(self.stack, record.sweep) else None

    def _check_machines(self) -> None:
        """ExecutorError where the account reports that machines will not come."""
        kinds = sorted({trial.hardware_kind for trial in self.trials})
        failed = [one for one in self.executor.preflight(kinds) if one.state == "failed"]
        if failed:
            listed = "; ".join(f"{one.subject}: {one.observed}. {one.remedy}" for one in failed)
            raise ExecutorError(f"Nothing was sent, because no machine would come: {listed}")

    def _send(self, sweep: SentSweep, files: FolderContent) -> None:
        facts = self.stack.facts
        size = sum(len(data) for data in files.files.values())
        self._say(f"sends the plan and {len(files.files)} files ({format_bytes(size)})")
        for path, data in files.files.items():
            self._say(f"sends /{path} ({format_bytes(len(data))})")
        store = {
            TARGET: "benchorch.stores.s3.S3Store",
            "url": facts.store_url,
            "root": "~/.cache/benchorch",
            "quota_gib": None,
            "lease_s": 60,
        }
        nodes: dict[str, Json] = {
            "keep_at": facts.results_url,
            "store": cast(Json, store),
            "executor": cast(Json, self.executor.head_executor(facts)),
        }
        plan = plan_to_send(self.session, self.trials, sweep.name, nodes)
        self._until_done(partial(sweep.send, plan, files))

    def _ensure_begun(self, sweep: SentSweep) -> None:
        """Start a head if there is none, and the sweep on it unless it runs there."""
        head = self._ready_head()
        cwd = self.session.search_path[0] if self.session.search_path else DIRECTORY
        command = start_command(sweep.name, self.stack.facts.results_url, cwd)
        end = self._until_done(partial(self._ran, sweep, head, command))
        if not end.is_well:
            raise ExecutorError(
                f"The sweep did not start on the head of stack {self.stack.facts.name}: {end.text}"
            )
        self.begun = True
        self._say(f"runs on {head.machine}")

    def _ran(self, sweep: SentSweep, head: Head, command: str) -> CommandEnd:
        """The end of a command on the head; ExecutorError where the head ends before it."""
        command_id = self.stack.send(head.machine, command)
        end_of = partial(self.stack.end_of, head.machine, command_id)
        looked_s = self.now_s()
        while (end := self._patiently(end_of)) is None:
            if self.now_s() - looked_s > HEAD_LOOK_S:
                looked_s = self.now_s()
                self._check_head(sweep, head.machine)
            self.sleep(LOOK_S)
        return end

    def _ready_head(self) -> Head:
        """The head, started if there is none; ExecutorError if it does not come."""
        begin_s = self.now_s()
        until_s = begin_s + HEAD_S
        requested, last, absent = False, None, 0
        before = refused = self.stack.refused_launch()
        while self.now_s() < until_s:
            head = self._patiently(self.stack.head)
            if head is not None and self._has_started(head):
                self.head_s = self.now_s() - begin_s if requested else None
                return head
            if self.failing_since_s is None:
                if head is None and not requested:
                    self._patiently(self.stack.start_head)
                    requested = self.failing_since_s is None
                last, absent = head or last, 0 if head else absent + 1
                if last is not None and absent == ABSENT:
                    raise ExecutorError(self._of_ended_head(last))
                refused = None if head else self.stack.refused_launch()
                self._check_launch(None if refused == before else refused)
                waits = "boots" if head else "is being started; this takes some minutes"
                self._say(f"the head of stack {self.stack.facts.name} {waits}")
            self.sleep(LOOK_S)
        why = f"AWS refused its launch: {refused.reason} " if refused else ""
        raise ExecutorError(
            f"The head of stack {self.stack.facts.name} took no command within {HEAD_S:.0f} s: "
            f"{why}make status; its start script's output is in starts/ of the stack's bucket."
        )

    def _has_started(self, head: Head) -> bool:
        """Whether Ray runs there; Systems Manager reaches a machine long before."""
        start = self._patiently(partial(self.stack.start_of, head.machine))
        if start is not None and not start.is_well:
            raise ExecutorError(self._of_ended_head(head))
        return head.is_ready and start is not None

    def _check_launch(self, refused: Refusal | None) -> None:
        """ExecutorError where no head will come."""
        if refused is not None and not refused.may_pass:
            raise ExecutorError(
                f"The head of stack {self.stack.facts.name} cannot be launched: {refused.reason} "
                "Nothing runs there. make provision-check examines the account; then the same line."
            )
        if refused is not None:
            self._say(f"the launch of a head is tried again: {refused.reason}")

    def _of_ended_head(self, head: Head) -> str:
        start = self.stack.start_of(head.machine)
        why = start.text if start else ""
        why = why or f"{head.machine} reported nothing to {self.stack.facts.starts_url}"
        return (
            f"The head of stack {self.stack.facts.name} ended before it took a command: {why}. "
            "Nothing runs there; the same line starts another head."
        )

    def _follow(self, sweep: SentSweep) -> Iterator[TrialResult]:
        looked_s = heard_s = self.now_s()
        before: Mapping[str, Json] = {}
        while True:
            status = self._patiently(sweep.status) or {}
            ended = bool(status.get("ended_at"))
            if status != before:
                before, heard_s = status, self.now_s()
            yield from self._new_results(sweep, ended=ended)
            self._pass_on(sweep, status)
            if ended and self.failing_since_s is None:
                break
            if self.now_s() - looked_s > HEAD_LOOK_S:
                looked_s = self.now_s()
                self._check_head(sweep)
            if self.now_s() - heard_s > SILENT_S:
                heard_s = self.now_s()
                self._check_coordinator(sweep)
            self.sleep(LOOK_S)
        self._until_done(sweep.mark_fetched)
        missing = len({trial.trial_id for trial in self.trials} - sweep.seen)
        if missing:
            why = f" ({'; '.join(sweep.problems.values())})" if sweep.problems else ""
            raise ExecutorError(
                f"Sweep {sweep.name} ended on stack {self.stack.facts.name} with "
                f"{plural(missing, 'trial')} without a result{why}; the same line runs what is "
                "missing."
            )

    def _new_results(self, sweep: SentSweep, *, ended: bool) -> Iterator[TrialResult]:
        entries = self._patiently(partial(sweep.new_entries, ended=ended)) or ()
        for name, problem in sweep.problems.items():
            self._say(f"{problem}; its trial has no result", about=f"line {name}")
        requested = {trial.trial_id for trial in self.trials}
        for entry in (one for one in entries if one.result.trial_id in requested):
            try:
                result = self._patiently(partial(sweep.fetch, entry))
            except SeriesError as error:
                sweep.problems[entry.result.trial_id] = error.problems[0].rstrip(".")
                continue
            if result is None:
                return
            yield result

    def _check_head(self, sweep: SentSweep, machine: str | None = None) -> None:
        """ExecutorError where there is no head, or it is not this machine any more."""
        head = self._patiently(self.stack.head)
        if self.failing_since_s is None and (head is None or machine not in (None, head.machine)):
            raise ExecutorError(
                f"The head of stack {self.stack.facts.name} is gone. Results so far are kept; the "
                f"same line starts another head and continues sweep {sweep.name}."
            )

    def _check_coordinator(self, sweep: SentSweep) -> None:
        """ExecutorError where the sweep is no longer coordinated, and its end is not in the bucket.

        A coordinator that is killed, or whose last copies fail, leaves its head running.
        """
        head = self._patiently(self.stack.head)
        if head is None or not head.is_ready or STOPPED not in self._look(head, sweep):
            return
        status = self._patiently(sweep.status)
        if status is not None and not status.get("ended_at"):
            raise ExecutorError(
                f"Nothing coordinates sweep {sweep.name} on the head of stack "
                f"{self.stack.facts.name} any more, and its end is not in the bucket. Results so "
                "far are kept; the same line continues it."
            )

    def _look(self, head: Head, sweep: SentSweep) -> str:
        """The head's answer on the sweep's coordinator; empty where it cannot be asked."""
        try:
            return self._ran(sweep, head, look_command(sweep.name)).text
        except StackError:  # asked again, and the head itself is looked at meanwhile
            return ""

    def _patiently(self, ask: Callable[[], T]) -> T | None:
        """The answer; None while a request fails in a way that passes."""
        try:
            answer = ask()
        except StackError as error:
            now_s = self.now_s()
            since_s = self.failing_since_s = self.failing_since_s or now_s
            if not error.may_pass or now_s - since_s > PATIENCE_S:
                goes_on = f" The sweep continues on stack {self.stack.facts.name};" * self.begun
                raise ExecutorError(
                    f"{error}{goes_on or ' Then'} the same line follows it again."
                ) from error
            self._say(f"cannot be asked now: {error}")
            return None
        self.failing_since_s = None
        return answer

    def _until_done(self, ask: Callable[[], T]) -> T:
        """The answer, asked for again while a request fails in a way that passes."""
        while (found := self._patiently(lambda: (ask(),))) is None:
            self.sleep(LOOK_S)
        return found[0]

    def _pass_on(self, sweep: SentSweep, status: ConfigNode) -> None:
        """Report what machines cost and what the trials do there, where it has changed."""
        spending = self._with_head(sweep.spending(status))
        if spending is not None and spending != self.spending:
            self.spending = spending
            self.emit(Event.of_spending(spending))
        busy = status.get("busy")
        for trial_id, one in busy.items() if isinstance(busy, dict) else ():
            text = str(one.get("text", "")) if isinstance(one, dict) else ""
            if text and self.told.get(trial_id) != text:
                self.told[trial_id] = text
                stage, _, message = text.partition(" ")
                self.emit(Event(trial_id=trial_id, stage=stage, message=message))

    def _with_head(self, spending: Spending | None) -> Spending | None:
        """Spending with how long the head took, where it was launched for this sweep."""
        if spending is None or self.head_s is None:
            return spending
        return replace(spending, launch_s={**spending.launch_s, HEAD_KIND: self.head_s})

    def _say(self, text: str, about: str = "") -> None:
        """Report something of the sweep as a whole, once until something else is about the same."""
        if self.told.get(about) != text:
            self.told[about] = text
            name = self.stack.facts.name
            first = self.trials[0].trial_id
            self.emit(Event(trial_id=first, stage="wait", message=f"stack {name}: {text}"))
