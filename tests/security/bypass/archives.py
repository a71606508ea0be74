"""Archives and pickles that make the marker where something loads them whole."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from security.bypass.planted import Evil, torch_pickle

Change = Callable[[str, bytes], bytes]


def rewritten(good: bytes, change: Change, *more: tuple[str, bytes]) -> bytes:
    """The archive with every member changed, and members added."""
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(good)) as old, ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        for name, content in more:
            new.writestr(name, content)
    return buffer.getvalue()


def same(_: str, content: bytes) -> bytes:
    return content


def programs(good: bytes, marker: Path) -> dict[str, bytes]:
    """Exported programs, by the names of their files; the good one is `torch.export.save`'s."""
    evil = torch_pickle(Evil(marker))
    sample = torch_pickle(((Evil(marker),), {}))
    root = ZipFile(io.BytesIO(good)).namelist()[0].split("/")[0]
    inputs = next(n for n in ZipFile(io.BytesIO(good)).namelist() if n.endswith(".pt"))

    def inputs_are(content: bytes) -> Change:
        return lambda name, old: content if name.endswith(".pt") else old

    def weights(name: str, old: bytes) -> bytes:
        if "weights/" in name and name.endswith(".json"):
            return old.replace(b'"use_pickle": false', b'"use_pickle": true')
        return evil if "weights/" in name else old

    def expression(name: str, old: bytes) -> bytes:
        text = f"__import__('os').mkdir('{marker}')".encode()
        return old.replace(b'"as_int": 1', b'"as_expr": {"expr_str": "' + text + b'"}')

    return {
        "samples.pt2": rewritten(good, inputs_are(sample)),
        "samples_legacy.pt2": rewritten(
            good, inputs_are(torch_pickle(Evil(marker), _use_new_zipfile_serialization=False))
        ),
        "samples_plain.pt2": rewritten(good, inputs_are(pickle.dumps(Evil(marker)))),
        "samples_twice.pt2": rewritten(good, same, (inputs, sample)),
        "samples_first.pt2": rewritten(
            rewritten(good, inputs_are(sample)),
            same,
            (inputs, ZipFile(io.BytesIO(good)).read(inputs)),
        ),
        "weights.pt2": rewritten(good, weights),
        "expression.pt2": rewritten(good, expression),
        "object.pt2": rewritten(good, same, (f"{root}/data/constants/custom_obj_0", evil)),
        "opaque.pt2": rewritten(good, same, (f"{root}/data/constants/opaque_obj_0", evil)),
        "library.pt2": rewritten(
            good, same, (f"{root}/data/aotinductor/model/model.so", b"\x7fELF")
        ),
        "outside.pt2": rewritten(good, same, ("../../marker/x", b"x")),
        "pickle.pt2": pickle.dumps(Evil(marker)),
        "checkpoint.pt2": evil,
        "prefixed.pt2": pickle.dumps(Evil(marker)) + rewritten(good, inputs_are(sample)),
    }


def checkpoints(marker: Path) -> dict[str, bytes]:
    """Checkpoints, by the names of their files."""
    evil = Evil(marker)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("storages", "tensors", "pickle"):
            member = tarfile.TarInfo(name)
            content = pickle.dumps(evil, protocol=2)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return {
        "zip.pt": torch_pickle(evil),
        "inside.pt": torch_pickle({"layer.weight": evil}),
        "legacy.pt": torch_pickle(evil, _use_new_zipfile_serialization=False),
        "plain.pt": pickle.dumps(evil),
        "tar.pt": tar.getvalue(),
        "named.safetensors": torch_pickle(evil),
        "named.bin": torch_pickle({"state_dict": evil}),
        "named.ckpt": torch_pickle({"state_dict": {}, "hyper_parameters": evil}),
    }
