"""Numpy's files: read as numpy does, and refused before memory is taken for what they state."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from benchorch.frameworks import numpy_files
from benchorch.frameworks.numpy_files import read_npy, read_npz

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.int64(3),
    "empty": np.zeros((0, 4)),
    "columns": np.asfortranarray(np.eye(3)),
    "text": np.array(["x", "yy"]),
}


def header(shape, descr="<f8"):
    """The first bytes of an .npy file that states this shape."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}}}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive(path, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a.npy", content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path, save):
    save(tmp_path / "x.npz", **ARRAYS)
    found = read_npz(tmp_path / "x.npz")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        np.save(tmp_path / "x.npy", array)
        np.testing.assert_array_equal(read_npy(tmp_path / "x.npy"), array)


@pytest.mark.parametrize("shape", [(10**12,), (2**40, 2**40), (-1,), (-2, -3), (1,)])
def test_a_header_that_states_other_bytes_than_follow_is_refused(tmp_path, shape):
    content = header(shape) + bytes(48)
    (tmp_path / "x.npy").write_bytes(content)
    tracemalloc.start()  # numpy's arrays are in its account
    try:
        with pytest.raises(ValueError, match=r"states .* and holds 48"):
            read_npy(tmp_path / "x.npy")
        with pytest.raises(ValueError, match=r"states .* and holds 48"):
            read_npz(archive(tmp_path / "x.npz", content))
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()


def test_what_expands_beyond_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(numpy_files, "available_memory_bytes", lambda: 2**20)
    path = archive(tmp_path / "x.npz", header((2**21,)) + bytes(2**24))
    assert path.stat().st_size < 2**16
    with pytest.raises(ValueError, match="of memory are free"):
        read_npz(path)


def test_objects_are_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        read_npy(tmp_path / "x.npy")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\xff"])
def test_what_is_no_array_is_refused(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        read_npy(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"."):
        read_npz(archive(tmp_path / "x.npz", content))
    (tmp_path / "y.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"not an \.npz file"):
        read_npz(tmp_path / "y.npz")


def test_a_file_that_expands_a_thousandfold_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(2**22, np.uint8))
    assert read_npz(path)["x"].size == 2**22
    monkeypatch.setattr(numpy_files, "_FREE_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"bomb\.npz: its .* expand to 4.0 MiB; write it with"):
        read_npz(path)
