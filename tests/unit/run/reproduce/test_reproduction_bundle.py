"""A bundle: what is in it, and that a damaged, edited or hostile one is refused in a sentence."""

import contextlib
import importlib.metadata
import json
import zipfile

import pytest

from benchorch.cli import main
from benchorch.errors import ConfigError
from benchorch.journal import run_directory
from benchorch.run.reproduce.bundle import MANIFEST, write_bundle
from benchorch.run.reproduce.opened import open_bundle
from support.synthetic_runs import DISAGREES, failed, result, trial, write_run

EAGER = trial()
FAST = trial("fast", baseline=EAGER)
OTHER = trial("other", baseline=EAGER)


@pytest.fixture
def run(tmp_path):
    fast = result(FAST, 5e5, baseline_ns=1e6)
    return write_run(tmp_path / "run", (EAGER, result(EAGER)), (FAST, fast))


@pytest.fixture
def bundle(run, tmp_path):
    write_bundle(run, [], tmp_path / "b.zip")
    return tmp_path / "b.zip"


def changed(bundle, name, content):
    """The same bundle with another member, or without it."""
    with zipfile.ZipFile(bundle) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    members[name] = content(members.get(name, b""))
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, text in members.items():
            if text is not None:
                archive.writestr(one, text)
    return bundle


def refusal(bundle, tmp_path):
    with pytest.raises(ConfigError) as refused:
        open_bundle(bundle, tmp_path / "into")
    return str(refused.value)


def test_it_opens_to_the_run_that_was_measured(run, bundle, tmp_path):
    opened = open_bundle(bundle, tmp_path / "into")
    assert [one.trial.trial_id for one in opened.run.trials] == [EAGER.trial_id, FAST.trial_id]
    first, again = (
        run_directory.series_path(at, FAST.trial_id).read_text() for at in (run, opened.directory)
    )
    assert [*map(json.loads, first.splitlines())] == [*map(json.loads, again.splitlines())]
    expected = opened.manifest.trials[FAST.trial_id]
    assert (expected.seed, expected.model_digest) == (0, "weights")
    figure = expected.figures["latency_ms/p50"]
    assert figure.low < figure.value < figure.high


def test_the_same_run_gives_the_same_bytes(run, bundle, tmp_path):
    write_bundle(run, [], tmp_path / "c.zip")
    assert (tmp_path / "c.zip").read_bytes() == bundle.read_bytes()


def test_nothing_of_this_machines_own_is_in_it(run, tmp_path):
    plan = json.loads((run / run_directory.PLAN).read_text())
    plan["session"] = {"cwd": "/of-mine", "tracking": {"uri": "http://me:hunter22@host"}}
    (run / run_directory.PLAN).write_text(json.dumps(plan))
    write_bundle(run, [], tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        text = b"".join(archive.read(name) for name in archive.namelist())
    assert b"hunter22" not in text
    assert b"/of-mine" not in text


def test_one_trial_comes_with_its_baseline_alone(tmp_path):
    fast = result(FAST, 5e5, baseline_ns=1e6)
    pairs = (EAGER, result(EAGER)), (FAST, fast), (OTHER, failed(OTHER))
    run = write_run(tmp_path / "run", *pairs)
    manifest = write_bundle(run, ["fast"], tmp_path / "b.zip")
    assert set(manifest.trials) == {EAGER.trial_id, FAST.trial_id}
    with pytest.raises(ConfigError, match=r"other .* was not measured"):
        write_bundle(run, [], tmp_path / "c.zip")


def test_what_is_no_longer_the_same_model_is_not_to_be_reproduced(tmp_path):
    pairs = (EAGER, result(EAGER)), (FAST, result(FAST, parity=DISAGREES))
    run = write_run(tmp_path / "run", *pairs)
    with pytest.raises(ConfigError, match="no longer the same model"):
        write_bundle(run, [], tmp_path / "b.zip")


@pytest.mark.parametrize("changed_since", [False, True])
def test_its_packages_are_those_that_an_index_has(tmp_path, monkeypatch, changed_since):
    """Whoever installs them asks no index for benchorch, nor for a package of the owner's."""
    site = tmp_path / "site"
    for name, version in (("torch", "9.0+cpu"), ("torchvision", "9.1+cpu"), ("MyModels", "1.0")):
        folder = site / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (folder / "direct_url.json").write_text('{"url": "file:///home/me/my-models"}')
    monkeypatch.syspath_prepend(site)
    packages = {"torch": "9.0+cpu", "benchorch": importlib.metadata.version("benchorch")}
    packages |= {"MyModels": "1.0"} | ({"torchvision": "8.0+cpu"} if changed_since else {})
    of_eager = result(EAGER, environment={"packages": packages})
    write_bundle(write_run(tmp_path / "run", (EAGER, of_eager)), [], tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        lines = archive.read("requirements.txt").decode().splitlines()
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert lines[changed_since] == index
    assert {"torch==9.0", f"torchvision=={'8.0' if changed_since else '9.1'}"} <= {*lines}
    assert not any("benchorch" in line or "models" in line.lower() for line in lines[2:])
    assert (len(lines) == 4) is changed_since


def test_an_edited_member_is_named(bundle, tmp_path):
    changed(bundle, "run/plan.json", lambda text: text + b" ")
    assert "run/plan.json does not have its digest" in refusal(bundle, tmp_path)


def test_a_missing_and_a_further_member_are_named(bundle, tmp_path):
    changed(bundle, "requirements.txt", lambda _: None)
    assert "'requirements.txt' is missing" in refusal(bundle, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "run/../../evil", "run/evil.py", "evil.pth", "run/trials/../x"],
)
def test_a_member_that_leads_elsewhere_is_refused(bundle, tmp_path, name):
    changed(bundle, name, lambda _: b"x")
    assert "it holds" in refusal(bundle, tmp_path)
    assert not (tmp_path / "evil").exists()


def test_a_figure_that_the_series_do_not_give_is_refused(bundle, tmp_path):
    def narrower(text):
        manifest = json.loads(text)
        manifest["trials"][FAST.trial_id]["figures"]["latency_ms/p50"]["high"] *= 2
        return json.dumps(manifest).encode()

    changed(bundle, MANIFEST, narrower)
    assert "latency_ms/p50 is announced as" in refusal(bundle, tmp_path)


def test_what_would_expand_beyond_measure_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/results.jsonl", bytes(2**28))
    assert "bytes expand to" in refusal(tmp_path / "b.zip", tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"[]", b'{"format": 1}', b"[" * 10**5])
def test_what_is_no_manifest_is_refused(bundle, tmp_path, content):
    changed(bundle, MANIFEST, lambda _: content)
    assert "cannot be reproduced" in refusal(bundle, tmp_path)


def test_a_bundle_with_any_byte_changed_is_refused_or_says_the_same(bundle, tmp_path):
    whole = bundle.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path = tmp_path / "x.zip"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        with contextlib.suppress(ConfigError):
            open_bundle(path, tmp_path / f"into-{place}")


def test_links_in_it_are_files_like_any_other(bundle, tmp_path):
    link = zipfile.ZipInfo("run/trials/x/parity.json")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "is missing, or bundle.json does not know it" in refusal(bundle, tmp_path)
    assert not any(path.is_symlink() for path in (tmp_path / "into").rglob("*"))


def test_measured_again_elsewhere_it_is_judged(bundle, tmp_path, capsys):
    fast = result(FAST, 5e5, baseline_ns=1e6, seed=5)
    again = write_run(tmp_path / "again", (EAGER, result(EAGER, seed=5)), (FAST, fast))
    words = ["reproduce", str(bundle), "--measured", str(again)]
    assert main.run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "reproduced"
    assert {one["verdict"] for one in told["figures"]} == {"reproduced"}
    slower = result(FAST, 9e5, baseline_ns=1e6)
    run = write_run(tmp_path / "slower", (EAGER, result(EAGER, seed=5)), (FAST, slower))
    assert main.run(["reproduce", str(bundle), "--measured", str(run)]) == 1
    assert "more than was measured first" in capsys.readouterr().out
    part = write_run(tmp_path / "part", (EAGER, result(EAGER, seed=5)))
    assert main.run(["reproduce", str(bundle), "--measured", str(part)]) == 3
    assert "fast was not measured again" in capsys.readouterr().out


def test_a_strangers_plan_puts_none_of_this_machines_files_in_a_bundle(run, tmp_path):
    words = ["reproduce", str(run), "--bundle", str(tmp_path / "b.zip")]
    with pytest.raises(ConfigError, match=f"--with-weights --trust {run}"):
        main.run([*words, "--with-weights"])
    assert not (tmp_path / "b.zip").exists()
    assert main.run([*words, "--with-weights", "--trust", str(run)]) == 0
