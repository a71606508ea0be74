"""A revision in a private folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchorch.errors import ConfigError
from benchorch.host.environment import git_revision
from benchorch.run.duel.checkout import checked_out

HOOKS = ("post-checkout", "post-index-change", "reference-transaction")


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    answer = subprocess.run(
        ["git", "-C", str(folder), *settings, *words], capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "--quiet")
    (root / "sub" / "net.py").write_text("LAYERS = 1\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "one")
    (root / "sub" / "net.py").write_text("LAYERS = 2\n")
    return root


def test_the_folder_is_there_as_it_was_and_gone_in_the_end(repository: Path) -> None:
    with checked_out("HEAD", repository / "sub") as found:
        assert (found.folder / "net.py").read_text() == "LAYERS = 1\n"
        assert found.commit == git(repository, "rev-parse", "HEAD")
        assert found.top.parent.stat().st_mode & 0o077 == 0
        assert git_revision(found.folder) == found.commit
    assert not found.top.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "sub" / "net.py").read_text() == "LAYERS = 2\n"


def test_no_hook_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    trace = tmp_path / "hook-ran"
    for name in HOOKS:
        hook = repository / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
        hook.chmod(0o755)
    with checked_out("HEAD", repository) as found:
        git_revision(found.folder)
    assert not trace.exists()


@pytest.mark.parametrize("revision", ["nowhere", "--help", "HEAD:sub", ""])
def test_what_is_no_commit_is_refused(repository: Path, revision: str) -> None:
    with (
        pytest.raises(ConfigError, match="no such commit, branch or tag"),
        checked_out(revision, repository),
    ):
        pass


def test_outside_of_a_repository_gits_own_words_are_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a git repository"), checked_out("HEAD", tmp_path):
        pass


def test_a_folder_that_the_revision_does_not_have_is_refused(repository: Path) -> None:
    (repository / "later").mkdir()
    with (
        pytest.raises(ConfigError, match="has no folder later"),
        checked_out("HEAD", repository / "later"),
    ):
        pass
    assert len(git(repository, "worktree", "list").splitlines()) == 1
