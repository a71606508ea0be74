"""Words on a cluster's head: what may travel, what is passed on, and where a token may go."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchorch.cli import main
from benchorch.cli.commands import remote_head, submit
from benchorch.cli.commands.remote_head import ask, named, pack
from benchorch.config.overrides import parse_override
from benchorch.errors import ConfigError, ExecutorError
from benchorch.executors.ray_jobs import RayJobs
from benchorch.journal import registry, run_directory
from benchorch.journal.lock import LOG
from benchorch.models import trust
from support.synthetic_runs import trial, write_run

URL = "http://127.0.0.1:8265"


class FakeJobs:
    """A head on which a job writes a piece of its log each time it is asked for its state."""

    def __init__(self, *pieces: str, code: int = 0) -> None:
        self.pieces = list(pieces)
        self.code = code
        self.command = ""
        self.name = ""
        self.travelled: list[str] = []
        self.written = ""
        self.stopped = self.forgotten = False

    def submit(
        self, name: str, command: str, variables: Mapping[str, str], directory: Path | None = None
    ) -> None:
        self.name, self.command, self.variables = name, command, variables
        if directory is not None:
            files = (path for path in directory.rglob("*") if path.is_file())
            self.travelled = sorted(str(path.relative_to(directory)) for path in files)

    def status(self, name: str) -> str:
        assert name == self.name
        if self.pieces:
            self.written += self.pieces.pop(0).replace("NAME", name)
        if self.pieces:
            return "RUNNING"
        return "FAILED" if self.code else "SUCCEEDED"

    def reason(self, name: str) -> str:
        return "it failed"

    def exit_code(self, name: str) -> int | None:
        return self.code

    def log(self, name: str) -> str:
        return self.written

    def stop(self, name: str) -> None:
        self.stopped = True

    def forget(self, name: str) -> None:
        self.forgotten = True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_head.time, "sleep", lambda seconds: None)
    monkeypatch.delenv("BENCHORCH_HEAD", raising=False)


def test_a_commands_output_is_passed_on_in_whole_lines_without_rays_own() -> None:
    jobs = FakeJobs(
        "2026-11-22 INFO job_manager.py -- Runtime env is setting up.\n",
        "NAME\nfirst li",
        "ne\nRunning entrypoint for job NAME: echo NAME; python\nsecond\n",
        "third without an end",
    )
    heard: list[str] = []
    assert ask(jobs, ["status", "run's name"], heard.append) == 0
    assert "\n".join(heard).splitlines() == ["first line", "second", "third without an end"]
    assert jobs.command == f"echo {jobs.name}; python -m benchorch status 'run'\"'\"'s name'"
    assert jobs.forgotten


def test_a_commands_exit_code_is_the_heads() -> None:
    assert ask(FakeJobs("NAME\nno such run\n", code=2), ["logs", "x"], lambda text: None) == 2


def test_what_ray_says_is_passed_on_where_the_command_was_never_reached() -> None:
    heard: list[str] = []
    assert ask(FakeJobs("no space left\n", code=1), ["status"], heard.append) == 1
    assert heard == ["no space left\n"]


def test_an_interrupt_ends_the_command_there() -> None:
    jobs = FakeJobs("NAME\nline\n", "more\n", "more\n")

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(jobs, ["logs", "x", "--follow"], interrupted)
    assert jobs.stopped


def test_a_password_among_the_words_goes_nowhere() -> None:
    words = ["model=bert", "recorder.uri=https://me:hunter2@mlflow.example.com"]
    jobs = FakeJobs()
    with pytest.raises(ConfigError, match=r"recorder\.uri: holds a password"):
        remote_head.submit(jobs, URL, words, None)
    assert jobs.command == ""


def test_submit_answers_once_the_plan_is_known() -> None:
    jobs = FakeJobs("", "demo plan 20261122-1: 3 trials\n", "more\n", "more\n")
    reply = remote_head.submit(jobs, URL, ["model=mlp", "conversion=[eager,bf16]"], None)
    assert reply.exit_code == 0
    assert "demo plan 20261122-1: 3 trials" in reply.text
    assert f"cancel {jobs.name} --head {URL}" in reply.text
    words = shlex.split(jobs.command)
    assert words[:6] == ["python", "-m", "benchorch", "submit", "--as", jobs.name]
    assert words[6:] == ["model=mlp", "conversion=[eager,bf16]"]


def test_submit_says_why_a_run_did_not_start() -> None:
    reply = remote_head.submit(FakeJobs("1 problem\n", code=2), URL, ["model=nosuch"], None)
    assert reply.exit_code == 2
    assert "it failed\n1 problem" in reply.text


def test_what_travels_is_the_named_directory_without_secrets_links_and_leavings(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    for name in (
        *("my.yaml", "zoo.py", "package/inner.py", "package/data.txt", "secret_sauce.py"),
        *(".env", ".git/config", ".aws/credentials", "package/.env.local", "server.pem"),
        *("id_rsa", "aws_credentials.json", "package/__pycache__/x.pyc", "runs/a/plan.json"),
        *("mlflow.db", "mlflow.db-wal", "app.db", "data/all.sqlite", "old.sqlite3-journal"),
        *("id_ecdsa", "deploy.pfx", "secrets.yaml", "package/client_secret_1.json"),
    ):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "outside").write_text("secret")
    (work / "link").symlink_to(tmp_path / "outside")
    (work / "folder_link").symlink_to(tmp_path)
    jobs = FakeJobs("x plan y\n", "more\n", "more\n")
    remote_head.submit(jobs, URL, ["my.yaml"], work)
    own = ["my.yaml", "package/data.txt", "package/inner.py", "secret_sauce.py", "zoo.py"]
    assert jobs.travelled == own
    assert "--with-code" in jobs.command


def test_too_much_to_travel_is_refused_with_the_largest_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_head, "MOST_BYTES", 100)
    (tmp_path / "weights.bin").write_bytes(b"x" * 90)
    (tmp_path / "small.py").write_bytes(b"x" * 20)
    with pytest.raises(
        ConfigError, match=r"110 B, and at most 100 B are copied.*weights\.bin 90 B"
    ):
        pack(tmp_path, tmp_path / "copy")


def test_the_head_is_the_one_named_else_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(["run"]) == (None, ["run"])
    assert named(["run", "--head", URL, "--json"]) == (URL, ["run", "--json"])
    monkeypatch.setenv("BENCHORCH_HEAD", "http://localhost:1")
    assert named(["run"]) == ("http://localhost:1", ["run"])
    assert named(["-m", "model=mlp", "--here"]) == (None, ["-m", "model=mlp"])


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://10.0.0.7:8265", "in the clear"),
        ("http://head.example.com:8265", "in the clear"),
        ("127.0.0.1:8265", "expected the dashboard's URL"),
        ("ray://127.0.0.1:10001", "expected the dashboard's URL"),
        ("", "expected the dashboard's URL"),
    ],
)
def test_a_token_is_not_sent_in_the_clear(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RayJobs(url)


@pytest.mark.parametrize("url", [URL, "http://localhost:1", "http://[::1]:9", "https://head.corp"])
def test_a_tunnels_end_and_an_encrypted_way_will_do(url: str) -> None:
    assert RayJobs(url).url == url


def test_a_head_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(url: str) -> object:
        raise ConnectionError("Failed to connect to Ray at address")

    monkeypatch.setattr("benchorch.executors.ray_jobs._connected", connected)
    with pytest.raises(ExecutorError, match="Is its dashboard up"):
        RayJobs(URL).status("x")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "submit needs a run's arguments"),
        (["resume"], "resume needs a run"),
        (["status", "x"], "'status' is not a valid argument for a run"),
        (["--cfg", "job"], "submit does not take --cfg"),
        (["model=nosuch"], "there is no 'nosuch'"),
        (["resume=nosuch"], "resume: 'nosuch' is neither"),
        (["model=mlp", "hydra.run.dir=${name}"], "without interpolations"),
    ],
)
def test_words_that_no_run_takes_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r".*") as error:
        main.run(["submit", *words])
    assert problem in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("stopping=quick", "resume runs the trials of the plan as they are"),
        ("budget.minuts=5", "unknown key"),
        ("executor=fleet_locl", "there is no 'fleet_locl'"),
    ],
)
def test_settings_that_no_run_is_resumed_with_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, problem: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = write_run(tmp_path / "run", (trial(), None))
    registry.remember_plan(run_directory.read_plan(run).plan_id, run)
    before = sorted(run.rglob("*"))
    with pytest.raises(ConfigError, match=r".*") as error:
        main.run(["submit", "resume", str(run), word])
    assert problem in str(error.value)
    assert sorted(run.rglob("*")) == before


def test_a_plan_made_elsewhere_is_not_resumed_by_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = write_run(tmp_path / "run", (trial(), None))
    with pytest.raises(ConfigError, match=r"benchorch submit resume .* --trust"):
        main.run(["submit", "resume", str(run)])
    assert not (run / LOG).exists()


def test_a_heads_driver_is_at_home_in_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "zoo.py").write_text("x")
    monkeypatch.chdir(work)
    words = submit.settle("benchorch-1", ["model=mlp"], with_code=True)
    place = tmp_path / "state" / "benchorch" / "runs" / "benchorch-1"
    assert Path.cwd() == place / "code"
    assert (place / "code" / "zoo.py").read_text() == "x"
    there = [f"hydra.run.dir={place}", f"hydra.sweep.dir={place}"]
    assert words == ["model=mlp", "executor=ray", "executor.address=auto", *there]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_can_be_in_a_folder_of_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "größe (1),x"
    for word in submit._placed(["model=mlp"], directory):
        assert parse_override(word).value() == str(directory)


@pytest.mark.parametrize(
    ("words", "hired"),
    [
        (["model=mlp"], ["executor=ec2"]),
        (["executor=process"], []),
        (["resume=x"], []),
    ],
)
def test_a_run_goes_to_the_heads_own_machines_unless_it_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], hired: list[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submit, "HEADS_CLUSTER", tmp_path)
    told = submit.settle("benchorch-1", words, with_code=False)
    assert [word for word in told if word.startswith("executor") and word not in words] == hired


ENDPOINT = "http://model.example:8000/predict"


@pytest.mark.parametrize("before", [[], ["--quiet"]])
@pytest.mark.parametrize("named", [[], ["--trust", ENDPOINT]])
def test_an_address_that_is_trusted_here_is_trusted_on_the_head(
    before: list[str], named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.yaml").write_text("defaults: [config, _self_]\n")
    monkeypatch.chdir(tmp_path)
    jobs = FakeJobs("NAME\nbenchorch plan 20260101-000000-abcd: 1 trial\n", "more\n")
    monkeypatch.setattr(submit, "RayJobs", lambda url: jobs)
    words = ["submit", "--head", URL, "--working-dir", str(tmp_path), "theirs.yaml", *named]
    assert main.run([*before, *words]) == 0
    there = shlex.split(jobs.command)
    assert jobs.travelled == ["theirs.yaml"]
    with trust.declared(there[there.index("submit") + 1 :]):
        assert bool(trust.refusal(ENDPOINT)) == (not named)
        assert trust.has_foreign_recipe()


@pytest.mark.parametrize(
    ("words", "there"),
    [
        (["status", "last"], ["status", "last"]),
        (["resume", "last~1"], ["resume=last~1"]),
        (["submit", "resume=last"], ["resume=last"]),
    ],
)
def test_the_last_run_on_a_head_is_the_heads_own(
    words: list[str], there: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [write_run(tmp_path / name, (trial(), None)) for name in ("one", "two")]
    monkeypatch.setattr(registry, "latest_invocations", lambda *_, **__: here)
    jobs = FakeJobs("NAME\nbenchorch plan 20260101-000000-abcd: 1 trial\n", "more\n")
    monkeypatch.setattr(submit, "RayJobs", lambda url: jobs)
    monkeypatch.setattr(remote_head, "RayJobs", lambda url: jobs)
    assert main.run([*words, "--head", URL]) == 0
    assert shlex.split(jobs.command)[-len(there) :] == there


def test_no_file_is_written_on_a_head_in_place_of_here(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = FakeJobs("NAME\nwrote log.txt\n")
    monkeypatch.setattr(remote_head, "RayJobs", lambda url: jobs)
    with pytest.raises(ConfigError, match="written on the head"):
        main.run(["logs", "some-run", "--head", URL, "--output", "log.txt"])
    assert not jobs.command


def test_a_directory_that_is_not_there_does_not_travel(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--working-dir: there is no directory"):
        remote_head.submit(FakeJobs(), URL, ["model=mlp"], tmp_path / "nowhere")
