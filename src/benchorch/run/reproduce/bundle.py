"""A bundle: what another machine needs to repeat a measurement, in one zip file.

::

    bundle.json         a `BundleManifest`: its origin, what a repetition must give, files' digests
    README.md           the one command
    requirements.txt    the packages
    run/                the run's directory: plan (the resolved recipe), results, raw series
    files/              on request, the user's files that the trials name, by their SHA-256

Digests find damage and edits, not forgery: a bundle is as foreign as a recipe.
"""

import importlib.metadata
import re
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from benchorch.domain.codec import Json, encode
from benchorch.domain.estimate import Estimate
from benchorch.domain.result import Outcome
from benchorch.domain.trial import Plan, node_of
from benchorch.errors import ConfigError
from benchorch.files import digest_once, write_json, write_text
from benchorch.host.environment import package_versions, release
from benchorch.host.packages import TORCH_WHEELS
from benchorch.journal import run_directory
from benchorch.journal.reader import read_journal
from benchorch.models import trust
from benchorch.progress import Say, silent
from benchorch.results.compare.load_run import derive, refuse_running, stored
from benchorch.results.compare.reproduction import expectations
from benchorch.results.compare.stored_run import StoredTrial
from benchorch.run.selection import narrowed

FORMAT, SCHEMA_VERSION = "benchorch bundle", 1
MANIFEST, RUN, FILES = "bundle.json", "run", "files"
COPIED_BYTES = 2**20
_CODE = (".py", ".ipynb")
_SUFFIX = re.compile(r"\.\w{1,16}", re.ASCII)
_REQUIREMENTS, _README = "requirements.txt", "README.md"
_SESSION: Mapping[str, Json] = {"cwd": "", "rebuild": "if_needed"}
"""A machine's own folders, store and recorder mean nothing elsewhere."""

_TEXT = """\
# {plan_id}

    benchorch reproduce THIS_FILE.zip

measures {trials} again on this machine, and ends with *reproduced* (exit code 0), *differs, and by
what* (1) or *not comparable, and why* (3). It was measured with Python {python}, benchorch
{version} and the packages of `requirements.txt`:

    pip install --requirement requirements.txt

benchorch is not among them, nor what was installed from a folder or an archive of its own: an index
may have something else by such a name.

`bundle.json` has the figures with the intervals within which they must fall.
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a repetition of a trial must give.

    Attributes:
        seed: of weights and inputs.
        model_digest: SHA-256 over the weights; empty where nothing was built.
        figures: by metric, with the interval within which a repetition with as many processes
            must fall.
    """

    labels: Mapping[str, str]
    seed: int | None
    model_digest: str
    figures: Mapping[str, Estimate]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """What a bundle says of itself.

    Attributes:
        version: benchorch's.
        trials: by their ids.
        files: SHA-256 of the user's files that the trials name, by the name in the trial; the
            bundle holds those of which it has a `member`.
        commit: of the user's own code; empty outside of git.
        digests: SHA-256 of the bundle's other members.
    """

    format: str
    schema_version: int
    version: str
    plan_id: str
    trials: Mapping[str, Expected]
    files: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


def write_bundle(
    directory: Path,
    patterns: Sequence[str],
    path: Path,
    say: Say = silent,
    *,
    code: bool = False,
    weights: bool = False,
) -> BundleManifest:
    """Write the bundle of a run, or of some of its trials with their baselines.

    Args:
        code: whether it holds the Python files that the trials name; not what those import.
        weights: whether it holds the other files: checkpoints and inputs.

    Raises:
        ConfigError: there is no such trial, one of them has no sound result, a file that is to be
            in it has changed since, or the bundle exists.
    """
    if path.exists():
        raise ConfigError([f"--bundle: {path} exists already; name a new file."])
    whole = run_directory.read_plan(directory)
    refuse_running(directory, whole)
    plan = narrowed(whole, patterns)
    with TemporaryDirectory(prefix="benchorch-bundle-") as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        _copy_run(directory, plan, folder / RUN)
        trials = stored(derive(folder / RUN, str(directory), say), str(directory), say).trials
        manifest = _manifest(plan, trials)
        _write_notes(folder, manifest, trials)
        carried = {
            name: place
            for name, place in trust.own_files(plan.trials).items()
            if (code if place.suffix in _CODE else weights)
        }
        _link_files(folder, carried, manifest.files)
        manifest = replace(
            manifest, digests={name: digest_once(path) for name, path in _members(folder)}
        )
        write_json(folder / MANIFEST, encode(manifest))
        try:
            _pack(folder, path)
        except OSError as error:
            raise ConfigError([f"--bundle: {path} cannot be written: {error.strerror}."]) from error
    return manifest


def named_files(plan: Plan) -> Mapping[str, str]:
    """SHA-256 of the user's files that a plan's trials name: code, checkpoints, inputs."""
    return {name: digest_once(place) for name, place in trust.own_files(plan.trials).items()}


def member(name: str, digest: str) -> str:
    """Where a bundle holds a file, with the suffix that its reader goes by."""
    suffix = ".py" if trust.is_reference(name) else Path(name).suffix
    return f"{FILES}/{digest}{suffix if _SUFFIX.fullmatch(suffix) else ''}"


def _link_files(folder: Path, places: Mapping[str, Path], digests: Mapping[str, str]) -> None:
    changed = [name for name, place in places.items() if digest_once(place) != digests[name]]
    if changed:
        raise ConfigError(
            [
                f"{name} has changed since it was measured (SHA-256 {digests[name][:16]}): put the "
                "former one back, or measure again."
                for name in changed
            ]
        )
    (folder / FILES).mkdir()
    for name, place in places.items():
        link = folder / member(name, digests[name])
        if not link.exists():
            link.symlink_to(place.resolve())


def _copy_run(directory: Path, plan: Plan, out: Path) -> None:
    """The run's plan and results without what is this machine's own."""
    problems = []
    entries = read_journal(directory).entries
    out.mkdir()
    run_directory.write_plan(out, replace(plan, session=_SESSION, skips=(), notes=()))
    for trial in plan.trials:
        entry = entries.get(trial.trial_id)
        result = None if entry is None else entry.whole(directory)
        if entry is None or result is None or result.outcome is not Outcome.OK or not result.valid:
            problems.append(f"{trial.labels['conversion']} ({trial.trial_id}) was not measured.")
            continue
        if result.unfinished or result.disagrees:
            problems.append(
                f"{trial.labels['conversion']} ({trial.trial_id}) is interrupted, or is no longer "
                "the same model."
            )
            continue
        run_directory.append_result(out, result, {"metrics": node_of(entry.content, "metrics")})
        folder = run_directory.trial_directory(out, trial.trial_id)
        write_json(folder / "environment.json", encode(dict(result.environment)))
        write_json(folder / "parity.json", encode(result.parity))
    if problems:
        problems.append("Name the trials that are to be reproduced: benchorch reproduce RUN:TRIAL.")
        raise ConfigError(problems)


def _manifest(plan: Plan, trials: Sequence[StoredTrial]) -> BundleManifest:
    awaited = expectations(trials)
    results = {one.trial.trial_id: one.result for one in trials if one.result is not None}
    builds = {name: result.build for name, result in results.items()}
    commits = {str(one.environment.get("git_commit") or "") for one in results.values()}
    expected = {
        one.trial_id: Expected(
            labels=one.labels,
            seed=_seed(one.spec),
            model_digest=build.model_digest if (build := builds[one.trial_id]) else "",
            figures=awaited[one.trial_id],
        )
        for one in plan.trials
    }
    return BundleManifest(
        format=FORMAT,
        schema_version=SCHEMA_VERSION,
        version=importlib.metadata.version("benchorch"),
        plan_id=plan.plan_id,
        trials=expected,
        files={**named_files(plan), **measured_files(trials)},
        commit=", ".join(sorted(commits - {""})),
    )


def measured_files(trials: Sequence[StoredTrial]) -> Mapping[str, str]:
    """SHA-256 of the user's files when they were measured; older runs noted none.

    Raises:
        ConfigError: a file was not the same for all trials.
    """
    noted: dict[str, set[str]] = {}
    for one in trials:
        for name, digest in node_of(one.environment, "files").items():
            noted.setdefault(name, set()).add(str(digest))
    several = [name for name, digests in noted.items() if len(digests) > 1]
    if several:
        raise ConfigError(
            [f"{name} changed while the run went on: measure again." for name in several]
        )
    return {name: digests.pop() for name, digests in noted.items()}


def _seed(spec: Mapping[str, Json]) -> int | None:
    seed = node_of(spec, "workload").get("seed")
    return seed if isinstance(seed, int) else None


def _write_notes(folder: Path, manifest: BundleManifest, trials: Sequence[StoredTrial]) -> None:
    pythons = {str(one.environment.get("python")) for one in trials if one.result}
    text = _TEXT.format(
        plan_id=manifest.plan_id,
        trials=", ".join(one.labels["conversion"] for one in manifest.trials.values()),
        python=" and ".join(sorted(pythons)),
        version=manifest.version,
    )
    write_text(folder / _README, text)
    write_text(folder / _REQUIREMENTS, "".join(f"{line}\n" for line in _requirements(trials)))


def _requirements(trials: Sequence[StoredTrial]) -> Iterator[str]:
    """The lock: all packages where they still are as measured, else those that were noted.

    Without benchorch, and without what was not installed from an index.
    """
    nodes = [node_of(one.environment, "packages") for one in trials]
    measured = {name: str(version) for node in nodes for name, version in node.items()}
    installed = [
        (str(one.metadata["Name"]).lower(), one) for one in importlib.metadata.distributions()
    ]
    own = {"benchorch", *(name for name, one in installed if one.read_text("direct_url.json"))}
    pinned = {name: one.version for name, one in reversed(installed)}  # the first is imported
    if package_versions(measured) != measured:
        yield "# Packages have changed since it was measured; these are the ones that were noted."
        pinned = measured
    torch = pinned.get("torch", "")
    if release(torch) != torch:
        yield f"--extra-index-url {TORCH_WHEELS}/{torch.partition('+')[2]}"
    listed = sorted((name, release(pinned[name])) for name in pinned if name.lower() not in own)
    yield from (f"{name}=={version}" for name, version in listed)


def _members(folder: Path) -> list[tuple[str, Path]]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted((path.relative_to(folder).as_posix(), path) for path in found)


def _pack(folder: Path, path: Path) -> None:
    """The folder as a zip file, whole or not at all; equal content gives equal bytes."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with zipfile.ZipFile(draft, "w") as archive:
            for name, place in _members(folder):
                info = zipfile.ZipInfo(name)
                if not name.startswith(f"{FILES}/"):  # weights do not shrink
                    info.compress_type = zipfile.ZIP_DEFLATED
                info.file_size = place.stat().st_size
                with place.open("rb") as file, archive.open(info, "w") as packed:
                    shutil.copyfileobj(file, packed, COPIED_BYTES)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
