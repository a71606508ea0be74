"""Write the locks, in which every package has its version and the hashes of its files.

    python scripts/write_locks.py [NAME ...]     # needs uv (pip install uv) and the network

infra/locks has one for each kind of node; locks has those of a checkout: what ``make install`` and
``make test`` install on any system and Python, torch apart, and the tools that run beside it.

Versions are those of constraints.txt where it has one. Nodes run Ubuntu 24.04, so Python 3.12 and
glibc 2.39. torch's CPU build is on PyTorch's own index alone and is named by its address; TensorRT
on PyPI is an empty package that fetches NVIDIA's own, so its needs are written here instead of
being asked for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS, CHECKOUT_LOCKS = ROOT / "infra" / "locks", ROOT / "locks"
PYTHON, GLIBC = "3.12", "manylinux_2_39"
TORCH = "2.13.0"
TORCH_CPU = "https://download.pytorch.org/whl/cpu/torch-{version}%2Bcpu-cp312-cp312-{platform}.whl"
TORCH_CPU_WHEELS = {
    "x86_64": (
        "manylinux_2_28_x86_64",
        "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
    ),
    "aarch64": (
        "manylinux_2_28_aarch64",
        "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
    ),
}
TENSORRT, TENSORRT_PARTS = "11.0.0.114", ("bindings", "libs")
BUILD = ("setuptools", "wheel")  # what packages without a wheel are built with
OWN_BUILD = ("hatchling", "editables")  # what an editable install of benchorch is built with
CHECKOUT = {"install": ("all",), "develop": ("all", "dev", "docs", "sweep")}
TOOLS = ("uv", "cyclonedx-bom", "pip-audit")  # make lock, make sbom, make audit
EXTRAS = {
    "cpu-x86_64": ("all", "openvino", "executorch", "tvm", "lightning", "quantization"),
    "cpu-aarch64": ("all", "openvino", "tvm", "lightning", "quantization"),
    "cuda-x86_64": ("all", "nvidia", "tensorrt", "lightning", "quantization"),
}
CHECKOUT_HEAD = """# Every package of a checkout ({name}) by version and hash, not torch: make lock
# Python 3.11.5 and newer, any system: constraints.txt has the versions.
"""
TOOLS_HEAD = """# The tools of make lock, sbom and audit, by version and hash: make lock
"""
HEAD = """# Every package of a node of this kind, by version and hash: python scripts/write_locks.py
# Python {python} of Ubuntu 24.04. The head downloads them once; no node asks an index.
"""


def main(names: list[str]) -> int:
    """Write these locks, or every one; 1 where uv is not installed."""
    if subprocess.run(["uv", "--version"], capture_output=True, check=False).returncode:
        print("uv is not installed: pip install uv", file=sys.stderr)
        return 1
    known = [*EXTRAS, *CHECKOUT, "tools"]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no lock is called {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        text = written(name)
        folder = LOCKS if name in EXTRAS else CHECKOUT_LOCKS
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.txt").write_text(text)
        print(f"{name}: {text.count('==')} packages")
    return 0


def written(name: str) -> str:
    """The text of a lock."""
    if name in EXTRAS:
        return HEAD.format(python=PYTHON) + locked(name)
    anywhere = ["--universal", "--python-version", "3.11.5"]  # as mkdocs-material needs
    with tempfile.TemporaryDirectory() as place:
        if name == "tools":
            (Path(place) / "tools.in").write_text("\n".join(TOOLS) + "\n")
            return TOOLS_HEAD + _compiled(["tools.in", *anywhere], place)
        project = [str(ROOT / "pyproject.toml"), *_inputs(Path(place), "cpu", OWN_BUILD)]
        return CHECKOUT_HEAD.format(name=name) + _compiled(
            [*project, *_with(CHECKOUT[name]), *anywhere], place
        )


def locked(kind: str) -> str:
    """The packages of a kind of node, each with the hashes of its files."""
    build, _, machine = kind.partition("-")
    with tempfile.TemporaryDirectory() as place:
        project = [str(ROOT / "pyproject.toml"), *_inputs(Path(place), build)]
        platform = ["--python-version", PYTHON, "--python-platform", f"{machine}-{GLIBC}"]
        text = _compiled([*project, *_with(EXTRAS[kind]), *platform], place)
    return text if build == "cuda" else text + _torch_cpu(machine)


def _with(extras: Iterable[str]) -> list[str]:
    return [word for extra in extras for word in ("--extra", extra)]


def _compiled(words: list[str], place: str) -> str:
    """What uv resolves, each package with the hashes of its files."""
    command = ["uv", "pip", "compile", *words]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=place).stdout


def _torch_cpu(machine: str) -> str:
    platform, digest = TORCH_CPU_WHEELS[machine]
    address = TORCH_CPU.format(version=TORCH, platform=platform)
    return f"torch @ {address} \\\n    --hash=sha256:{digest}\n"


def _inputs(place: Path, build: str, besides: Iterable[str] = BUILD) -> list[str]:
    """The words for uv that name what else is wanted, and what packages say of themselves."""
    kept = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line]
    more, overrides = [*besides], []
    config = ""
    if build == "cuda":
        more += ["onnxruntime-gpu", "wheel-stub"]
        overrides += ["onnxruntime ; sys_platform == 'none'"]
        config = _metadata("tensorrt", TENSORRT, [f"tensorrt-cu13=={TENSORRT}"])
        parts = [f"tensorrt-cu13-{part}" for part in TENSORRT_PARTS]
        config += _metadata("tensorrt-cu13", TENSORRT, [f"{part}=={TENSORRT}" for part in parts])
        config += "".join(_metadata(part, TENSORRT, []) for part in parts)
        kept += [f"tensorrt=={TENSORRT}"]
    else:
        needs = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec"]
        config = _metadata("torch", TORCH, [*needs, "setuptools"])
    texts = {"more.in": more, "kept.txt": kept, "overrides.txt": overrides}
    for name, lines in texts.items():
        (place / name).write_text("\n".join(lines) + "\n")
    (place / "uv.toml").write_text(config)
    words = ["more.in", "--constraint", "kept.txt", "--override", "overrides.txt"]
    words += ["--config-file", "uv.toml"]
    return words if build == "cuda" else [*words, "--no-emit-package", "torch"]


def _metadata(name: str, version: str, needs: list[str]) -> str:
    return (
        f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version}"\n'
        f"requires-dist = {needs!r}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
