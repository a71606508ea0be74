"""Look at the stack's Terraform with checkov and tflint, and validate it with each AWS provider.

    python3 scripts/check_terraform.py [--checkov PROGRAM] [--tflint PROGRAM]

Providers are those in BENCHORCH_TF_PLUGIN_DIR, or the newest 5 and 6 from the registry. What is not
installed is named and counts as not checked; the exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "infra" / "terraform"
MAJORS = {"5": "~> 5.90", "6": "~> 6.0"}
LIMIT_S = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check; 1 if one found something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkov", default="checkov")
    parser.add_argument("--tflint", default="tflint")
    options = parser.parse_args(arguments)
    found = [
        _linter(options.checkov, "--directory", ".", "--config-file", ".checkov.yaml"),
        _linter(options.tflint, "--recursive"),
        *_validated(),
    ]
    return 1 if any(found) else 0


def _linter(program: str, *words: str) -> int:
    if shutil.which(program) is None:
        print(f"{Path(program).name}: not installed, not checked")
        return 0
    done = subprocess.run([program, *words], cwd=ROOT, timeout=LIMIT_S, check=False)
    print(f"{Path(program).name}: {'found something' if done.returncode else 'nothing found'}")
    return done.returncode


def _validated() -> Iterator[int]:
    """The exit code of `terraform validate` with each major release of the provider."""
    plugins = os.environ.get("BENCHORCH_TF_PLUGIN_DIR")
    versions = _in_mirror(Path(plugins)) if plugins else MAJORS
    for major, wanted in MAJORS.items():
        if shutil.which("terraform") is None or major not in versions:
            print(f"provider {major}: not to be had here, not validated")
        else:
            yield _validate(major, versions[major] if plugins else wanted, plugins)


def _in_mirror(place: Path) -> dict[str, str]:
    """A version of each major release in a directory of providers."""
    folders = place.glob("registry.terraform.io/hashicorp/aws/*")
    return {folder.name.partition(".")[0]: folder.name for folder in sorted(folders)}


def _validate(major: str, version: str, plugins: str | None) -> int:
    with tempfile.TemporaryDirectory() as place:
        ignored = shutil.ignore_patterns(".terraform*", "tests")
        copy = shutil.copytree(ROOT, Path(place) / "stack", ignore=ignored)
        text = (copy / "versions.tf").read_text()
        pinned = re.sub(r'(?m)^( +version += )".*"', rf'\g<1>"{version}"', text)
        (copy / "versions.tf").write_text(pinned)
        offline = [f"-plugin-dir={plugins}"] if plugins else []
        for words in (["init", "-backend=false", "-input=false", *offline], ["validate"]):
            done = subprocess.run(
                ["terraform", *words, "-no-color"],
                cwd=copy,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            if done.returncode:
                print(done.stdout + done.stderr, file=sys.stderr)
                break
    print(f"provider {major} ({version}): {'invalid' if done.returncode else 'valid'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
