"""Parts of the start scripts, with the programs that they call played."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchorch.hardware.aws_starts import reason_of

SCRIPTS = Path(__file__).resolve().parents[2] / "infra" / "terraform" / "scripts"


def test_a_failed_start_is_reported_with_its_reason(tmp_path: Path) -> None:
    """The last line that is reported is the one that a sweep shows."""
    text = (SCRIPTS / "common.sh.tftpl").read_text()
    [failed] = re.findall(r"^failed\(\).*?^}$", text, re.MULTILINE | re.DOTALL)
    log, reported = tmp_path / "start.log", tmp_path / "reported"
    script = f"""
        set -Eeuo pipefail
        exec > {log} 2>&1
        role=worker step=packages
        node() {{ echo "$*" > {reported}; cat {log} >> {reported}; }}
        sleep() {{ :; }}
        shutdown() {{ :; }}
        {failed}
        trap failed EXIT
        echo "s3 answers 403: AccessDenied"
        false
    """
    done = subprocess.run(["bash", "-c", script], timeout=60, check=False)
    words, *lines = reported.read_text().splitlines()
    assert (done.returncode, words) == (1, "report failed packages 1")
    assert reason_of({"instance": "i-1", "step": "packages", "log": lines}) == (
        "i-1 failed at packages: s3 answers 403: AccessDenied"
    )
    assert "packages failed with exit code 1" in log.read_text()


def test_a_head_ends_only_once_its_group_is_empty() -> None:
    """AWS refuses while a scaling activity is in progress; another head would follow this one."""
    text = (SCRIPTS / "head.sh.tftpl").read_text()
    [end] = re.findall(r"^end_head\(\).*?^}$", text, re.MULTILINE | re.DOTALL)
    played = """
        set -Eeuo pipefail
        tries=0
        node() { echo "node $*"; [[ $((++tries)) -ge 3 ]]; }
        sleep() { echo "sleep $*"; }
        shutdown() { echo "shutdown $*"; }
    """
    script = "\n".join([played, end.replace("${head_group}", "lab-head"), "end_head"])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    refused = ["node rest lab-head", "sleep 60"]
    assert done.stdout.splitlines() == [*refused, *refused, refused[0], "shutdown -h now"]
    assert text.count("node rest") == 1
    assert text.count("\n  end_head\n") == 2  # its time is up; nobody uses it


def test_the_time_of_a_head_is_counted_from_the_first_line_of_its_script() -> None:
    """So its hard end, five minutes later, never comes first, however long the start takes."""
    text = (SCRIPTS / "head.sh.tftpl").read_text()
    [end] = re.findall(r"^(\{ # Its time is up.*?^\}) >", text, re.MULTILINE | re.DOTALL)
    played = """
        set -Eeuo pipefail
        sleep() { SECONDS=$((SECONDS + $1)); }
        end_head() { echo "ended after $((SECONDS / 60)) minutes"; }
        SECONDS=$((60 * 400))
    """
    script = "\n".join([played, end.replace("${ttl_minutes}", "480")])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended after 480 minutes\n"


def test_a_head_from_a_baked_image_has_the_program_that_makes_packages(tmp_path: Path) -> None:
    """Its image was a worker's, whose packages it has; other kinds of node wait for theirs."""
    text = (SCRIPTS / "common.sh.tftpl").read_text()
    [install] = re.findall(r"^packages=.*?^fi$", text, re.MULTILINE | re.DOTALL)
    install = install.replace("{packages}", "cpu-0")
    install = install.replace("{make_packages}", ': > "$home/make_packages.sh"\n')
    (tmp_path / "packages").write_text("cpu-0\n")
    script = f"set -Eeuo pipefail\nhome={tmp_path} role=head step=metadata\n{install}\necho $step"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "metadata\n"  # nothing was installed
    assert (tmp_path / "make_packages.sh").exists()


def packages_made(tmp_path: Path, played: str) -> list[str]:
    """What is said by the part of a head's script that makes packages, with the rest played."""
    text = (SCRIPTS / "head.sh.tftpl").read_text()
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text('  "benchorch/packages": "cpu-x86_64-0"\n')
    [kinds] = re.findall(r"^kinds\(\).*$", text, re.MULTILINE)
    [make] = re.findall(r"^(\{ # The packages.*?^\}) &$", text, re.MULTILINE | re.DOTALL)
    make = make.replace("/etc/benchorch/cluster.yaml", str(cluster))
    listed = """
        set -Eeuo pipefail
        home=/lib rounds=0 made=" cpu-x86_64-0 "
        node() { local kind=${2#packages/}; [[ $made == *" ${kind%/*} "* ]] && echo "$2"; true; }
    """
    script = "\n".join([f"cluster={cluster}", listed, played, kinds, make])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def test_a_head_makes_the_packages_of_a_kind_that_is_added_while_it_runs(tmp_path: Path) -> None:
    """The first try fails."""
    said = packages_made(
        tmp_path,
        """
        bash() { echo "$*"; [[ $rounds -gt 1 ]] && made+=" $2 "; }
        sleep() {
          case $((++rounds)) in
            1) echo '  "benchorch/packages": "cuda-x86_64-1"' >> "$cluster" ;;
            4) exit ;;
          esac
        }
        """,
    )
    make = "/lib/make_packages.sh cuda-x86_64-1"
    failed = "the packages of cuda-x86_64-1 could not be made, which is tried ten times"
    assert said == [make, failed, make]


def test_packages_that_cannot_be_made_do_not_keep_a_head_for_ever(tmp_path: Path) -> None:
    said = packages_made(tmp_path, "made=; bash() { echo made; false; }; sleep() { :; }")
    assert said.count("made") == 10


def test_a_bucket_that_cannot_be_read_has_no_packages_made_again(tmp_path: Path) -> None:
    refused = "node() { false; }; bash() { echo made; }"
    thrice = "sleep() { [[ $((++rounds)) -lt 3 ]] || exit 0; }"
    assert packages_made(tmp_path, f"{refused}; {thrice}") == []


@pytest.mark.parametrize(
    ("starts_at", "tries", "stays_s", "ended"),
    [
        (1, 1, 60, "shutdown -h now"),
        (1, 1, 10, "failed ray 1"),
        (3, 3, 60, "shutdown -h now"),
        (4, 3, 60, "failed ray 1"),
    ],
)
def test_a_worker_whose_ray_starts_too_slowly_tries_again(
    tmp_path: Path, starts_at: int, tries: int, stays_s: int, ended: str
) -> None:
    """From a baked image, whose disk is read for the first time, imports take many seconds.

    Where Ray joins and ends at once, the start has failed.
    """
    log = tmp_path / "start.log"
    text = (SCRIPTS / "worker.sh.tftpl").read_text()
    text = text.replace("/var/log/benchorch-start.log", str(log))
    text = text.replace("${address_parameter}", "/head-address")
    text = text.replace("begun=$SECONDS", f"begun=$((SECONDS - {stays_s}))")
    ray = tmp_path / "env" / "bin" / "ray"
    ray.parent.mkdir(parents=True)
    ray.write_text(
        f"""#!/bin/bash
        echo "$1 $2" >> {tmp_path}/starts
        [[ $(wc -l < {tmp_path}/starts) -ge {starts_at} ]] && echo "Ray runtime started." >> {log}
        exit 1
        """
    )
    ray.chmod(0o755)
    played = f"""
        set -Eeuo pipefail
        home={tmp_path} address=10.0.0.2
        node() {{ [[ $1 == metadata ]] && echo r6i-spot; return 0; }}
        shutdown() {{ echo "shutdown $*"; }}
        failed() {{ local code=$?; trap - EXIT; echo "failed $step $code"; }}
        trap failed EXIT
    """
    log.touch()
    done = subprocess.run(
        ["bash", "-c", played + text], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == ended, done.stderr
    assert (tmp_path / "starts").read_text() == "start --block\n" * tries
