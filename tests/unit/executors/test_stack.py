"""A sweep that is sent to a stack, followed, left, followed again, and fetched."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchorch import __version__
from benchorch.cli.commands.status import _on_a_stack
from benchorch.domain.codec import encode
from benchorch.domain.result import Failure, Outcome, TrialResult, UploadedFile
from benchorch.domain.session import SPENDING, Event, Session
from benchorch.domain.spending import SpendingRules
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ExecutorError
from benchorch.executors import sent_sweep, stack
from benchorch.executors.scheduling.file_transfer import FolderContent, ShippedFiles
from benchorch.executors.stack import StackExecutor
from benchorch.interfaces.stack import (
    CommandEnd,
    Head,
    Readiness,
    Refusal,
    Stack,
    StackError,
    StackFacts,
)
from benchorch.journal import chain, run_directory
from benchorch.journal.lock import acquire_lock
from benchorch.journal.registry import remember
from support.synthetic_runs import result as measured
from support.synthetic_runs import write_run

TRIALS = tuple(
    Trial(trial_id=f"{n:016x}", labels={}, spec={"hardware": {"kind": "g5.xlarge"}})
    for n in range(3)
)


@dataclass
class Account(Stack):
    """A stack whose head measures one trial for each look at its status."""

    objects: dict[str, bytes] = field(default_factory=dict)
    machine: str | None = None
    starts: int = 0
    commands: list[str] = field(default_factory=list)
    name: str = ""
    done: int = 0
    failed: str = ""
    failures: list[StackError] = field(default_factory=list)
    damaged: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    late: dict[str, bytes] = field(default_factory=dict)
    readiness: Sequence[Readiness] = ()
    start_reports: dict[str, str] = field(default_factory=dict)
    refused: Refusal | None = None
    looks_at_start: int = 0
    boots_for: int = 0
    bytes_read: int = 0

    @property
    def facts(self) -> StackFacts:
        return StackFacts(
            name="mine",
            region="eu-west-1",
            kinds=("g5.xlarge",),
            results_url="s3://mine-1/results",
            store_url="s3://mine-1/store",
            starts_url="s3://mine-1/starts",
        )

    def read(self, name: str, start: int = 0) -> bytes | None:
        if name.endswith("driver.json") and self.failures:
            raise self.failures.pop(0)
        if name.endswith("driver.json") and self.commands:
            self._measure()
        found = self.objects.get(name)
        self.bytes_read += len(found or b"") - start
        return found if found is None else found[start:]

    def _measure(self) -> None:
        plan = json.loads(self.objects[f"{self.name}/plan.json"])
        ids = [trial["trial_id"] for trial in plan["trials"]]
        if self.done < len(ids):
            key = f"attempts/{ids[self.done]}/0/trace.json"
            self.objects[f"{self.name}/{key}"] = b"traced there"
            digest = hashlib.sha256(b"traced there").hexdigest()
            trace = UploadedFile(name="profile/trace.json", key=key, sha256=digest)
            result = TrialResult(
                trial_id=ids[self.done], labels={}, outcome=Outcome.OK, uploads=(trace,)
            )
            if self.done in self.lost:
                result = replace(result, processes=measured(TRIALS[self.done]).processes)
            at = f"{self.name}/results.jsonl"
            *_, before = [b"", *self.objects.get(at, b"").splitlines()]
            node: Any = encode(result)
            line = chain.seal(node, before) + b"\n"
            if self.done in self.damaged:
                line = line.replace(b'"ok"', b'"no"')
            self.objects[f"{self.name}/trials/{ids[self.done]}/log.txt"] = b"measured there"
            self.objects[at] = self.objects.get(at, b"") + line
            self.done += 1
        ended = {"ended_at": "now", "complete": True} if self.done == len(ids) else {}
        if ended:
            self.objects |= {f"{self.name}/{name}": data for name, data in self.late.items()}
        busy = {} if ended else {ids[self.done]: {"since": "", "text": "measure process 1"}}
        spent = {"usd": 0.1 * self.done, "max_usd": 2.0, "machines": {"g5.xlarge": 1}}
        status = json.dumps({"pid": 1, "busy": busy, "spending": spent, **ended}).encode()
        self.objects[f"{self.name}/driver.json"] = status

    def write(self, name: str, data: bytes) -> None:
        self.name = name.partition("/")[0]
        self.objects[name] = data

    def download(self, name: str, path: Path) -> None:
        path.write_bytes(self.objects[name])

    def listed(self, prefix: str) -> Sequence[str]:
        return [name for name in self.objects if name.startswith(prefix)]

    def sweeps(self) -> Sequence[str]:
        return sorted({name.partition("/")[0] for name in self.objects})

    def preflight(self, kinds: Sequence[str], markets: Sequence[str]) -> Sequence[Readiness]:
        assert tuple(kinds) == ("g5.xlarge",)
        assert tuple(markets) == ("spot", "on_demand")
        return self.readiness

    def lock(self, kind: str) -> str | None:
        found = self.objects.get(f"packages/{kind}")
        return None if found is None else found.decode()

    def head(self) -> Head | None:
        return Head(self.machine, is_ready=True) if self.machine else None

    def start_head(self) -> None:
        self.starts += 1
        self.machine = f"i-{self.starts}"

    def refused_launch(self) -> Refusal | None:
        return self.refused

    def start_of(self, machine: str) -> CommandEnd | None:
        if self.start_reports.get(machine):
            return CommandEnd(is_well=False, text=self.start_reports[machine])
        self.looks_at_start += 1
        return CommandEnd(is_well=True, text="") if self.looks_at_start > self.boots_for else None

    def send(self, machine: str, command: str) -> str:
        self.commands.append(command)
        return f"c-{len(self.commands)}"

    def end_of(self, machine: str, command_id: str) -> CommandEnd | None:
        return CommandEnd(is_well=not self.failed, text=self.failed)


@dataclass
class Work:
    session: Session


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    found = Account()
    monkeypatch.setattr(stack, "found_stack", lambda name: found)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    return found


def sweep(
    tmp_path: Path,
    number: int = 1,
    heard: list[Event] | None = None,
    spending: SpendingRules | None = None,
) -> Iterator[Any]:
    directory = tmp_path / str(number)
    directory.mkdir()
    settings: dict[str, Any] = {
        "rebuild": "if_needed",
        "store": {},
        "cwd": str(tmp_path),
        "tracking": {"uri": "x"},
    }
    settings["budget"] = {"minutes": 9}
    plan = Plan(plan_id=f"p-{number}", name="n", trials=TRIALS, skips=(), session=settings)
    run_directory.write_plan(directory, plan)
    session = replace(Session.of(plan, directory), spending=spending or SpendingRules())
    work: Any = Work(session=session)
    return StackExecutor().run(TRIALS, work, (heard if heard is not None else []).append)


def test_a_sweep_starts_the_head_runs_there_and_its_results_come_home(
    account: Account, tmp_path: Path
) -> None:
    heard: list[Event] = []
    found = list(sweep(tmp_path, heard=heard))
    assert [result.trial_id for result in found] == [trial.trial_id for trial in TRIALS]
    assert account.starts == 1
    (command,) = account.commands
    assert "benchorch submit --here resume /var/lib/benchorch/p-1-" in command
    assert "--at s3://mine-1/results" in command
    log = tmp_path / "1" / "trials" / TRIALS[0].trial_id / "log.txt"
    assert log.read_text() == "measured there"
    assert (log.parent / "profile" / "trace.json").read_text() == "traced there"
    told = [event.message for event in heard]
    assert any("is being started" in text for text in told)
    assert "process 1" in told
    assert json.loads((tmp_path / "1" / "stack.json").read_text())["region"] == "eu-west-1"


def test_what_is_sent_runs_by_the_heads_executor_and_records_nothing_there(
    account: Account, tmp_path: Path
) -> None:
    list(sweep(tmp_path))
    sent = json.loads(account.objects[f"{account.name}/plan.json"])
    assert sent["plan_id"] == account.name
    assert sent["session"]["executor"]["cluster_file"] == "/etc/benchorch/cluster.yaml"
    assert sent["session"]["store"]["url"] == "s3://mine-1/store"
    assert sent["session"]["keep_at"] == "s3://mine-1/results"
    assert sent["session"]["tracking"] == {"_target_": "benchorch.recorders.none.Nowhere"}


def test_what_a_failure_on_the_head_has_the_user_change_reaches_the_head(account: Account) -> None:
    """By the options of executor=stack; the head's own are not at hand."""
    executor = StackExecutor(market="on_demand", most=2, wait_s=3600)
    sent = executor.head_executor(account.facts)
    assert (sent["market"], sent["most"], sent["wait_s"]) == ("on_demand", 2, 3600)


def test_what_machines_cost_there_is_followed_here_to_the_end(
    account: Account, tmp_path: Path
) -> None:
    heard: list[Event] = []
    list(sweep(tmp_path, heard=heard))
    told = [event.message for event in heard if event.stage == SPENDING]
    assert told == [
        f"{usd} of 2.00 USD so far; machines: g5.xlarge 1" for usd in ("0.10", "0.20", "0.30")
    ]


def test_how_long_a_head_took_that_was_started_for_the_sweep_is_noted(
    account: Account, tmp_path: Path
) -> None:
    heard: list[Event] = []
    list(sweep(tmp_path, heard=heard))
    started = [event.spending for event in heard if event.spending is not None]
    assert started
    assert all(one.launch_s["head"] >= 0 for one in started)
    again: list[Event] = []
    account.done = 0
    list(sweep(tmp_path, 2, heard=again))  # on the head that runs
    spent = [event.spending for event in again if event.spending is not None]
    assert spent
    assert not any("head" in one.launch_s for one in spent)


@pytest.mark.parametrize(
    ("found", "machine", "launches"),
    [("stack", None, True), ("stack", "i-1", False), ("none", None, True), ("error", None, True)],
)
def test_a_head_is_launched_where_none_runs(
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    found: str,
    machine: str | None,
    launches: bool,
) -> None:
    account.machine = machine
    answers = {"stack": account, "none": None, "error": StackError("refused")}
    monkeypatch.setattr(stack, "found_stack", lambda name: answers[found])
    stack._lacks_head.cache_clear()
    assert StackExecutor().launches_head() is launches
    stack._lacks_head.cache_clear()


def test_a_resumed_run_sends_what_is_left_of_its_budget(account: Account, tmp_path: Path) -> None:
    spent = SpendingRules(max_usd=2.0, spent_usd=0.5)
    list(sweep(tmp_path, spending=spent))
    sent = json.loads(account.objects[f"{account.name}/plan.json"])
    assert sent["session"]["budget"] == {"minutes": 9, "max_usd": 1.5}


def test_a_resumed_run_adds_what_its_sweeps_cost(account: Account, tmp_path: Path) -> None:
    """Each new sweep begins at 0 USD on the head; one that is followed again is added once."""
    list(sweep(tmp_path, spending=SpendingRules(max_usd=2.0)))
    directory = tmp_path / "1"
    plan = run_directory.read_plan(directory)

    spent = [0.3]

    def note(event: Event) -> None:
        if event.spending is not None:
            spent.append(event.spending.usd)

    def resumed() -> Iterator[Any]:
        rules = SpendingRules(max_usd=2.0, spent_usd=spent[-1])
        work: Any = Work(session=replace(Session.of(plan, directory), spending=rules))
        return StackExecutor().run(TRIALS, work, note)

    account.done = 0
    account.commands.clear()
    left = resumed()
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a generator
    assert "2 trials done, 0.60 of 2.30 USD so far" in str(_on_a_stack(directory))
    list(resumed())
    account.done = 0
    account.commands.clear()
    list(resumed())
    assert spent == pytest.approx([0.3, 0.6, 0.7, 0.8, 0.9])
    sent = json.loads(account.objects[f"{account.name}/plan.json"])
    assert sent["session"]["budget"]["max_usd"] == pytest.approx(1.4)


def test_the_same_line_follows_a_sweep_that_was_left(account: Account, tmp_path: Path) -> None:
    left = sweep(tmp_path, 1)
    assert next(left).trial_id == TRIALS[0].trial_id
    left.close()  # type: ignore[attr-defined]  # it is a generator
    again = list(sweep(tmp_path, 2))
    assert [result.trial_id for result in again] == [trial.trial_id for trial in TRIALS]
    first, second = account.commands  # of which the second finds it running
    assert first == second
    assert account.starts == 1


def test_a_folder_of_the_bucket_whose_name_a_shell_would_run_is_no_sweep(account: Account) -> None:
    for name in ("p-d1", "p;reboot #-d1", "$(reboot)-d1"):
        account.objects[f"{name}/{sent_sweep.SENT}"] = b"{}"
    assert sent_sweep.unfetched(account, "d1") == "p-d1"


def test_a_resumed_run_follows_the_sweep_that_it_sent_for_the_rest_of_its_trials(
    account: Account, tmp_path: Path
) -> None:
    left = sweep(tmp_path, 1)
    assert next(left).trial_id == TRIALS[0].trial_id
    left.close()  # type: ignore[attr-defined]  # it is a generator
    directory = tmp_path / "1"
    told = str(_on_a_stack(directory))
    assert "continues on stack mine: 2 trials done, 0.30 of 2.00 USD so far" in told
    session = Session.of(run_directory.read_plan(directory), directory)
    work: Any = Work(session=session)
    rest = list(StackExecutor().run(TRIALS[1:], work, lambda event: None))
    assert [result.trial_id for result in rest] == [trial.trial_id for trial in TRIALS[1:]]
    assert len({name.partition("/")[0] for name in account.objects}) == 1
    assert _on_a_stack(directory) is None


def test_a_run_that_is_repeated_after_its_sweep_has_ended_runs_again(
    account: Account, tmp_path: Path
) -> None:
    list(sweep(tmp_path, 1))
    names = [account.name]
    directory = tmp_path / "1"
    work: Any = Work(session=Session.of(run_directory.read_plan(directory), directory))
    for _ in range(2):
        account.done = 0
        again = StackExecutor().run(TRIALS, work, lambda event: None)
        next(again)
        again.close()  # type: ignore[attr-defined]  # it is a generator
        followed = list(StackExecutor().run(TRIALS, work, lambda event: None))
        assert [result.trial_id for result in followed] == [trial.trial_id for trial in TRIALS]
        names.append(account.name)
    assert len({*names}) == 3
    assert len({*account.commands}) == 3  # of which two were sent once more by who followed
    assert {name.rpartition("-")[2] for name in names} == {names[0].rpartition("-")[2]}


def test_the_same_line_after_the_end_begins_anew(account: Account, tmp_path: Path) -> None:
    list(sweep(tmp_path, 1))
    account.done = 0
    list(sweep(tmp_path, 2))
    assert len(account.commands) == 2


def test_a_sweep_whose_head_is_gone_goes_on_on_another(account: Account, tmp_path: Path) -> None:
    left = sweep(tmp_path, 1)
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a generator
    account.machine = None
    assert len(list(sweep(tmp_path, 2))) == len(TRIALS)
    assert account.starts == 2
    assert len(account.commands) == 2
    assert account.commands[0] == account.commands[1]


class Silent(Account):
    """A stack whose coordinator is killed after one trial."""

    answer = sent_sweep.STOPPED

    def _measure(self) -> None:
        if not self.done:
            super()._measure()

    def go_on(self) -> None:
        super()._measure()

    def end_of(self, machine: str, command_id: str) -> CommandEnd | None:
        asked = self.commands[-1] == sent_sweep.look_command(self.name)
        return CommandEnd(is_well=True, text=self.answer if asked else "")


def test_a_coordinator_that_was_killed_is_found_out_though_its_head_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = Silent()
    monkeypatch.setattr(stack, "found_stack", lambda name: account)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    monkeypatch.setattr(stack, "SILENT_S", 0.0)
    followed = sweep(tmp_path)
    next(followed)
    with pytest.raises(
        ExecutorError, match=r"Nothing coordinates sweep .* the same line continues"
    ):
        list(followed)
    assert len(account.commands) == 2


def test_a_coordinator_that_is_silent_for_long_is_followed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = Silent()
    account.answer = ""
    monkeypatch.setattr(stack, "found_stack", lambda name: account)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    monkeypatch.setattr(stack, "SILENT_S", 0.0)
    followed = sweep(tmp_path)
    next(followed)
    monkeypatch.setattr(Silent, "_measure", lambda self: len(self.commands) > 3 and self.go_on())
    assert len(list(followed)) == len(TRIALS) - 1


def test_whether_a_sweep_is_coordinated_is_asked_of_its_lock(tmp_path: Path) -> None:
    python = f"export PATH={Path(sys.executable).parent}:$PATH\n"
    (tmp_path / "profile.sh").write_text(python)
    (tmp_path / "p-1").mkdir()
    command = sent_sweep.look_command("p-1").replace(sent_sweep.DIRECTORY, str(tmp_path))
    command = command.replace("/etc/profile.d/benchorch.sh", f"{tmp_path}/profile.sh")

    def said() -> str:
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout.strip()

    assert said() == sent_sweep.STOPPED
    with acquire_lock(tmp_path / "p-1"):
        assert said() == ""


def test_a_sweep_that_does_not_start_says_what_the_head_said(
    account: Account, tmp_path: Path
) -> None:
    account.failed = "The stack has benchorch 0.1"
    with pytest.raises(ExecutorError, match="did not start on the head of stack mine: The stack"):
        list(sweep(tmp_path))


@pytest.mark.parametrize("next_head", [None, "i-another"])
def test_a_head_that_ends_with_its_command_is_found_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, next_head: str | None
) -> None:
    """Nobody would report the command's end for an hour."""

    class Gone(Account):
        def end_of(self, machine: str, command_id: str) -> CommandEnd | None:
            self.machine = next_head
            return None

    gone = Gone()
    monkeypatch.setattr(stack, "found_stack", lambda name: gone)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    monkeypatch.setattr(stack, "HEAD_LOOK_S", -1.0)
    with pytest.raises(ExecutorError, match=r"head of stack mine is gone.*the same line starts"):
        list(sweep(tmp_path))


def test_the_head_refuses_a_sweep_of_another_version_before_it_fetches_anything(
    tmp_path: Path,
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 0.0.9\n")
    python.chmod(0o755)
    profile = tmp_path / "profile.sh"
    profile.write_text(f"export PATH={tmp_path}:$PATH\n")
    command = sent_sweep.start_command("p-1", "s3://mine-1/results", str(tmp_path / "there"))
    command = command.replace("/etc/profile.d/benchorch.sh", str(profile))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"The stack has benchorch 0.0.9, this machine has {__version__}" in done.stdout
    assert not (tmp_path / "there").exists()


class Ending(Account):
    """A stack whose head boots, and ends before it takes a command."""

    looks: int = 0

    def head(self) -> Head | None:
        self.looks += 1
        return Head("i-1", is_ready=False) if self.starts and self.looks < 5 else None


@pytest.mark.parametrize("report", ["i-1 failed at apt: E: Unable to locate package g++", ""])
def test_a_head_that_does_not_start_is_told_at_once_with_its_own_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, report: str
) -> None:
    ending = Ending(start_reports={"i-1": report})
    monkeypatch.setattr(stack, "found_stack", lambda name: ending)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    with pytest.raises(ExecutorError, match="ended before it took a command") as caught:
        list(sweep(tmp_path))
    assert (report or "i-1 reported nothing to s3://mine-1/starts") in str(caught.value)
    assert ending.looks < 10
    assert not ending.commands


@dataclass
class Refused(Account):
    """A stack whose head comes after so many looks, its first launch being refused."""

    refusal: Refusal | None = None
    looks_left: int = 0

    def head(self) -> Head | None:
        self.looks_left -= bool(self.starts)
        return None if self.looks_left > 0 else super().head()

    def start_head(self) -> None:
        super().start_head()
        self.refused = self.refusal


NO_QUOTA = Refusal(
    "a-1", "VcpuLimitExceeded: more vCPU capacity than your limit of 0 allows", may_pass=False
)
NO_CAPACITY = Refusal("a-2", "We do not have sufficient m7i.large capacity", may_pass=True)


def test_a_head_that_the_account_cannot_launch_ends_the_line_with_the_clouds_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = Refused(refusal=NO_QUOTA, looks_left=10**9)
    monkeypatch.setattr(stack, "found_stack", lambda name: refused)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    with pytest.raises(ExecutorError, match="cannot be launched: VcpuLimitExceeded") as caught:
        list(sweep(tmp_path))
    assert "make provision-check" in str(caught.value)
    assert refused.starts == 1
    assert not refused.commands


def test_a_head_whose_launch_is_refused_for_a_while_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = Refused(refusal=NO_CAPACITY, looks_left=4)
    monkeypatch.setattr(stack, "found_stack", lambda name: refused)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    heard: list[Event] = []
    assert len(list(sweep(tmp_path, heard=heard))) == len(TRIALS)
    assert any("tried again: We do not have sufficient" in event.message for event in heard)


def test_a_head_that_systems_manager_reaches_gets_no_command_before_its_start_script_ended(
    account: Account, tmp_path: Path
) -> None:
    account.boots_for = 6
    heard: list[Event] = []
    assert len(list(sweep(tmp_path, heard=heard))) == len(TRIALS)
    assert account.looks_at_start == 7
    assert any("the head of stack mine boots" in event.message for event in heard)


def test_a_refusal_from_before_the_line_says_nothing_of_this_head(
    account: Account, tmp_path: Path
) -> None:
    account.refused = NO_QUOTA
    assert len(list(sweep(tmp_path))) == len(TRIALS)


def test_a_network_that_is_lost_while_the_head_boots_costs_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lost = [StackError("no network", may_pass=True)] * 5
    head = account.head

    def flaky() -> Head | None:
        if account.starts and lost:
            raise lost.pop()
        return head()

    monkeypatch.setattr(account, "head", flaky)
    monkeypatch.setattr(stack, "LOOK_S", 0.0)
    assert len(list(sweep(tmp_path))) == len(TRIALS)
    assert not lost


def test_nothing_is_sent_where_the_account_will_launch_no_machine(
    account: Account, tmp_path: Path
) -> None:
    account.readiness = [
        Readiness("ok", "g5.xlarge", "eu-west-1a", ""),
        Readiness("failed", "on_demand g (L-DB2E81BA)", "0 vCPUs", "aws service-quotas ..."),
    ]
    with pytest.raises(ExecutorError, match=r"Nothing was sent.*0 vCPUs\. aws service-quotas"):
        list(sweep(tmp_path))
    assert account.objects == {}
    assert account.starts == 0
    account.readiness = [Readiness("unknown", "AWS", "AccessDenied", "Allow this call.")]
    assert len(list(sweep(tmp_path, 2))) == len(TRIALS)


def test_a_request_that_fails_for_a_moment_costs_nothing(account: Account, tmp_path: Path) -> None:
    left = sweep(tmp_path)
    next(left)
    account.failures = [StackError("no network", may_pass=True)] * 2
    assert len(list(left)) == len(TRIALS) - 1


@pytest.mark.parametrize("request_", ["start_head", "send", "plan.json", "fetched.json"])
def test_a_throttle_that_passes_ends_no_line(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request_: str
) -> None:
    throttled = [StackError("Rate exceeded", may_pass=True)] * 2
    name = request_ if hasattr(account, request_) else "write"
    done = getattr(account, name)

    def request(*words: Any) -> Any:
        if throttled and (name == request_ or words[0].endswith(request_)):
            raise throttled.pop()
        return done(*words)

    monkeypatch.setattr(account, name, request)
    assert len(list(sweep(tmp_path))) == len(TRIALS)
    assert not throttled
    assert account.starts == len(account.commands) == 1
    assert f"{account.name}/fetched.json" in account.objects


def test_expired_credentials_are_told_and_the_same_line_goes_on(
    account: Account, tmp_path: Path
) -> None:
    left = sweep(tmp_path)
    next(left)
    account.failures = [StackError("The AWS credentials have expired: renew them.")]
    with pytest.raises(ExecutorError, match=r"have expired.*the same line follows it again"):
        list(left)
    assert len(list(sweep(tmp_path, 2))) == len(TRIALS)
    assert len(set(account.commands)) == 1


def test_a_result_that_was_changed_in_the_bucket_is_not_taken(
    account: Account, tmp_path: Path
) -> None:
    account.damaged = (1,)
    found: list[TrialResult] = []
    expected = "1 trial without a result .line 2 is damaged there: its digest differs.; the same"
    with pytest.raises(ExecutorError, match=expected):
        found.extend(sweep(tmp_path))
    assert {one.trial_id for one in found} == {TRIALS[0].trial_id, TRIALS[2].trial_id}


@pytest.mark.parametrize("late", [False, True])
def test_a_raw_series_that_is_not_in_the_bucket_ends_no_line_before_the_sweep_has(
    account: Account, tmp_path: Path, late: bool
) -> None:
    lost = TRIALS[1]
    account.lost = (1,)
    if late:
        run = write_run(tmp_path / "there", (lost, measured(lost)))
        series = run_directory.series_path(run, lost.trial_id)
        account.late = {series.relative_to(run).as_posix(): series.read_bytes()}
    found: list[TrialResult] = []
    told = ""
    try:
        found.extend(sweep(tmp_path))
    except ExecutorError as error:
        told = str(error)
    assert ("1 trial without a result" in told) == ("raw series is lost" in told) == (not late)
    ids = {trial.trial_id for trial in TRIALS}
    assert {one.trial_id for one in found} == (ids if late else ids - {lost.trial_id})


def test_each_damaged_line_is_reported_once(account: Account, tmp_path: Path) -> None:
    account.damaged = (0, 1)
    heard: list[Event] = []
    with pytest.raises(ExecutorError, match="2 trials without a result"):
        list(sweep(tmp_path, heard=heard))
    told = [event.message for event in heard if "is damaged there" in event.message]
    assert len(told) == len({*told}) == 2


def test_results_are_read_once_and_again_where_the_file_is_another(
    account: Account, tmp_path: Path
) -> None:
    followed = sent_sweep.SentSweep(stack=account, name="p-1", directory=tmp_path)
    lines: list[bytes] = []

    def add(trial: Trial, *, key: str = "p-1/results.jsonl") -> None:
        result: Any = encode(TrialResult(trial_id=trial.trial_id, labels={}, outcome=Outcome.OK))
        lines.append(chain.seal(result, lines[-1] if lines else b""))
        account.objects[key] = b"\n".join([*lines, b'{"torn'])

    def names() -> list[str]:
        return [one.result.trial_id for one in followed.new_entries()]

    add(TRIALS[0])
    add(TRIALS[1])
    assert names() == names() == [TRIALS[0].trial_id, TRIALS[1].trial_id]  # until they are fetched
    for entry in followed.new_entries():
        followed.fetch(entry)
    before = account.bytes_read
    assert names() == []
    assert account.bytes_read - before < 10
    add(TRIALS[2])
    assert names() == [TRIALS[2].trial_id]
    lines.clear()
    add(replace(TRIALS[0], trial_id="another"))
    assert names() == [TRIALS[2].trial_id, "another"]
    assert not followed.problems


def test_a_trial_without_a_machine_has_the_result_of_the_next_head(
    account: Account, tmp_path: Path
) -> None:
    """Its line for now is in the bucket when another head runs it again."""
    followed = sent_sweep.SentSweep(stack=account, name="p-1", directory=tmp_path)
    no_machine = Failure(stage="schedule", kind="no_capacity", message="none")
    lines: list[bytes] = []

    def add(trial: Trial, outcome: Outcome, failure: Failure | None = None) -> None:
        result: Any = encode(
            TrialResult(trial_id=trial.trial_id, labels={}, outcome=outcome, failure=failure)
        )
        lines.append(chain.seal(result, lines[-1] if lines else b""))
        account.objects["p-1/results.jsonl"] = b"".join(line + b"\n" for line in lines)

    for trial in TRIALS[:2]:
        add(trial, Outcome.FAILED, no_machine)
    assert followed.new_entries(ended=False) == []
    add(TRIALS[0], Outcome.OK)
    (entry,) = followed.new_entries(ended=False)
    assert followed.fetch(entry).outcome is Outcome.OK
    (entry,) = followed.new_entries(ended=True)
    assert followed.fetch(entry).failure == no_machine


def test_a_sweep_that_was_left_can_be_cancelled(account: Account, tmp_path: Path) -> None:
    left = sweep(tmp_path)
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a generator
    found = stack.left_running(tmp_path / "1")
    assert found is not None
    stack.cancel(found)
    assert f"benchorch cancel /var/lib/benchorch/{account.name} --yes" in account.commands[-1]
    assert len(list(sweep(tmp_path, 2))) == len(TRIALS)
    assert stack.left_running(tmp_path / "2") is None
    assert stack.left_running(tmp_path) is None
    record = {"stack": "mine", "sweep": "x; touch marker", "region": "r"}
    (tmp_path / "1" / stack.RECORD).write_text(json.dumps(record))
    assert stack.left_running(tmp_path / "1") is None  # it would be a part of a command on the head


def test_a_kind_outside_the_fleet_is_named_with_the_fleet(account: Account) -> None:
    assert StackExecutor().way("g5.xlarge") == "stack"
    assert StackExecutor().way("p5.48xlarge") == "none"
    assert "the fleet of stack mine is g5.xlarge" in str(StackExecutor().unreachable("p5.48xlarge"))


def test_conversions_are_those_of_the_nodes_lock_not_of_this_machine(account: Account) -> None:
    stack._stack_packages.cache_clear()
    there = StackExecutor().packages("g5.xlarge")
    assert there is not None
    assert {"onnxruntime-gpu", "tensorrt", "torch-tensorrt", "torch"} <= set(there)
    arm = StackExecutor().packages("c8g.large")
    assert arm is not None
    assert {"onnxruntime", "openvino"} <= set(arm)
    assert StackExecutor().packages("mine") is None
    account.objects["packages/cuda-x86_64"] = b"# made\ntorch==2.13.0 \\\n    --hash=x\nray[a]==2\n"
    stack._stack_packages.cache_clear()
    assert StackExecutor().packages("g5.xlarge") == {"torch": "2.13.0", "ray": "2"}
    stack._stack_packages.cache_clear()


def shipped(base: Path, **files: bytes) -> ShippedFiles:
    content = {f"{base}/{name}".lstrip("/"): data for name, data in files.items()}
    return ShippedFiles(
        directory=base, probe="", working_directory=base, content=FolderContent(files=content)
    )


def test_the_same_trials_and_files_have_the_same_digest_in_any_order_and_checkout() -> None:
    files = shipped(Path("/here"), a=b"1", b=b"2")
    digest = sent_sweep.digest_of(TRIALS, files)
    there = shipped(Path("/there"), b=b"2", a=b"1")
    assert digest == sent_sweep.digest_of(TRIALS[::-1], there)
    assert digest != sent_sweep.digest_of(TRIALS[:2], files)
    assert digest != sent_sweep.digest_of(TRIALS, shipped(Path("/here"), a=b"2", b=b"1"))
    assert digest != sent_sweep.digest_of(TRIALS, shipped(Path("/here"), a=b"1"))


def test_the_same_line_after_an_edit_of_its_files_is_another_sweep(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    zoo = [shipped(tmp_path, zoo=b"hidden = 128"), shipped(tmp_path, zoo=b"hidden = 4096")]
    monkeypatch.setattr(stack, "collect_files", lambda session, trials: zoo[0])
    left = sweep(tmp_path, 1)
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a generator
    first = account.name
    account.done = 0
    zoo.pop(0)
    assert len(list(sweep(tmp_path, 2))) == len(TRIALS)
    assert account.name != first
    sent = {name: data for name, data in account.objects.items() if name.endswith("/zoo")}
    assert sorted(sent.values()) == [b"hidden = 128", b"hidden = 4096"]


def head_with(tmp_path: Path) -> Callable[[str, bytes], subprocess.CompletedProcess[str]]:
    """Send a file as a sweep, and run the command that starts it in a folder that is the head."""
    place, root, bucket = tmp_path / "lib", tmp_path / "root", tmp_path / "bucket"
    tools = tmp_path / "bin"
    for folder in (place, root, bucket, tools):
        folder.mkdir()
    python = tools / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'"-m benchorch fetch "*) cp -R {bucket}/"$4" "$5";;\n'
        f'"-m benchorch submit "*) cat {root}/zoo.py;;\n'
        f'*) exec {sys.executable} "$@";;\n'
        "esac\n"
    )
    python.chmod(0o755)
    (tmp_path / "profile.sh").write_text(f"export PATH={tools}:$PATH\n")

    def start(name: str, zoo: bytes) -> subprocess.CompletedProcess[str]:
        (bucket / name / "files").mkdir(parents=True, exist_ok=True)
        (bucket / name / "files" / "zoo.py").write_bytes(zoo)
        command = sent_sweep.start_command(name, "s3://mine-1/results", str(root))
        command = command.replace(sent_sweep.DIRECTORY, str(place))
        command = command.replace("/etc/profile.d/benchorch.sh", f"{tmp_path}/profile.sh")
        command = command.replace(f"{place}/{name} /\n", f"{place}/{name} {root}\n")
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    return start


def test_the_head_runs_the_files_that_were_sent_not_those_of_the_sweep_before(
    tmp_path: Path,
) -> None:
    start = head_with(tmp_path)
    assert start("p-1", b"hidden = 128").stdout == "hidden = 128"
    assert start("p-2", b"hidden = 4096").stdout == "hidden = 4096"


def test_the_head_changes_no_file_that_a_running_sweep_may_use(
    tmp_path: Path,
) -> None:
    start = head_with(tmp_path)
    start("p-1", b"hidden = 128")
    other = tmp_path / "lib" / "p-1"
    remember("p-1", other)
    with acquire_lock(other):
        assert start("p-2", b"hidden = 128").stdout == "hidden = 128"
        refused = start("p-3", b"hidden = 4096")
    assert refused.returncode == 1
    assert f"{tmp_path}/root/zoo.py differs from the file that was sent" in refused.stderr
    assert str(other) in refused.stderr
    assert (tmp_path / "root" / "zoo.py").read_bytes() == b"hidden = 128"
    assert start("p-3", b"hidden = 4096").stdout == "hidden = 4096"
