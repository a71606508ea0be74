"""What every store keeps to, for each one that can be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchorch.config.components import make
from benchorch.domain.artifact import Artifact, BuildKey, Format
from benchorch.domain.codec import Json
from benchorch.errors import BuildError, StoreError
from benchorch.interfaces.store import Store
from support.s3 import bucket

__all__ = ["bucket"]

CONF = Path(__file__).resolve().parents[2] / "conf" / "store"
KEY = BuildKey(fields={"model": {"name": "mlp", "sizes": [1, 2]}, "opset": 20})


@pytest.fixture(params=sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    node = {**yaml.safe_load(request.param.read_text()), "root": str(tmp_path / "store")}
    if "url" in node:  # of a bucket that only its user knows
        node["url"] = request.getfixturevalue("bucket").url
    return make(node, Store, "store")


def write(out: Path) -> None:
    (out / "nested").mkdir()
    (out / "nested" / "weights.bin").write_bytes(bytes(1000))
    (out / "graph.txt").write_text("graph")


def refuse(out: Path) -> None:
    raise AssertionError("this build was to be found, not made")


def test_a_fresh_store_has_no_problems_and_holds_nothing(store: Store) -> None:
    assert list(store.problems()) == []
    assert list(store.entries()) == []
    assert store.find(KEY.digest) is None
    assert store.newest("mlp") is None


def test_make_is_given_an_empty_directory(store: Store) -> None:
    seen: list[list[Path]] = []
    store.build(
        KEY, format=Format.ONNX, name="mlp", make=lambda out: seen.append(list(out.iterdir()))
    )
    assert seen == [[]]


def test_what_was_built_is_found_again_with_its_bytes(store: Store) -> None:
    built, fresh = store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    again, rebuilt = store.build(KEY, format=Format.ONNX, name="mlp", make=refuse)
    assert (fresh, rebuilt) == (True, False)
    assert built == again == store.find(KEY.digest)
    assert (built.path / "nested" / "weights.bin").read_bytes() == bytes(1000)
    assert (built.key, built.format, built.size_bytes) == (KEY.digest, Format.ONNX, 1005)
    assert built.build_s >= 0


def test_an_entry_tells_where_it_came_from(store: Store) -> None:
    artifact, _ = store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    [entry] = store.entries()
    assert (entry.artifact, entry.name, entry.state) == (artifact, "mlp", "complete")
    assert entry.fields == KEY.fields
    assert entry.created_at.endswith("+00:00")
    assert store.newest("mlp") == entry


def test_force_builds_what_exists(store: Store) -> None:
    store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    artifact, fresh = store.build(
        KEY,
        format=Format.ONNX,
        name="mlp",
        make=lambda out: (out / "other").write_text("x") and None,
        force=True,
    )
    assert fresh
    assert [path.name for path in artifact.path.iterdir()] == ["other"]


def test_a_failure_is_raised_again_remembered_and_no_hit(store: Store) -> None:
    def fail(out: Path) -> None:
        write(out)
        raise BuildError("refused")

    with pytest.raises(BuildError, match="refused"):
        store.build(KEY, format=Format.ONNX, name="mlp", make=fail)
    assert store.find(KEY.digest) is None
    assert store.newest("mlp") is None
    [entry] = store.entries()
    assert (entry.state, entry.artifact.key) == ("failed", KEY.digest)
    assert "refused" in entry.detail
    assert store.build(KEY, format=Format.ONNX, name="mlp", make=write)[1]


def test_changed_bytes_are_noticed_set_aside_and_never_handed_out(store: Store) -> None:
    def weights(artifact: Artifact) -> bytes:
        return (artifact.path / "nested" / "weights.bin").read_bytes()

    artifact, _ = store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    with (artifact.path / "nested" / "weights.bin").open("r+b") as file:
        file.write(b"\x01")
    found = store.find(KEY.digest)  # None, but in a store that has another copy
    assert found is None or weights(found) == bytes(1000)
    assert "quarantined" in [entry.state for entry in store.entries()]
    assert weights(store.build(KEY, format=Format.ONNX, name="mlp", make=write)[0]) == bytes(1000)
    assert store.find(KEY.digest)


def test_the_newest_of_a_name_is_found_whatever_its_key(store: Store) -> None:
    for version in (1, 2):
        key = BuildKey(fields={"version": version})
        store.build(key, format=Format.ONNX, name="mlp", make=write)
    newest = store.newest("mlp")
    assert newest is not None
    assert newest.fields == {"version": 2}


def test_what_is_deleted_is_gone(store: Store) -> None:
    store.build(KEY, format=Format.ONNX, name="mlp", make=write)
    store.delete(KEY.digest)
    assert store.find(KEY.digest) is None
    assert list(store.entries()) == []
    with pytest.raises(StoreError):
        store.delete(KEY.digest)


def test_scratch_is_one_writable_directory_a_key(store: Store) -> None:
    scratch = store.scratch(KEY.digest)
    (scratch / "compiled").write_text("x")
    assert store.scratch(KEY.digest) == scratch
    assert (scratch / "compiled").read_text() == "x"
    assert store.scratch("0" * 64) != scratch
    assert store.find(KEY.digest) is None


# The key


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.text(min_size=1, max_size=6), VALUES, min_size=1, max_size=5)


def reordered(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {name: reordered(value[name]) for name in reversed(list(value))}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(fields=FIELDS)
def test_a_key_does_not_depend_on_the_order_of_fields(fields: dict[str, Json]) -> None:
    assert BuildKey(fields=fields).digest == BuildKey(fields=reordered(fields)).digest  # type: ignore[arg-type]


def meaning(value: object) -> object:
    """A value without the order of its fields; 1, 1.0 and True are equal in Python, not here."""
    if isinstance(value, dict):
        return {name: meaning(item) for name, item in value.items()}
    if isinstance(value, list):
        return [meaning(item) for item in value]
    return type(value).__name__, repr(value)


@given(fields=FIELDS, data=st.data())
def test_a_key_depends_on_every_value(fields: dict[str, Json], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(fields)))
    other = data.draw(VALUES.filter(lambda value: meaning(value) != meaning(fields[name])))
    assert BuildKey(fields={**fields, name: other}).digest != BuildKey(fields=fields).digest


@given(fields=FIELDS, name=st.text(min_size=7, max_size=9), value=VALUES)
def test_a_key_depends_on_every_field(fields: dict[str, Json], name: str, value: Json) -> None:
    assert BuildKey(fields={**fields, name: value}).digest != BuildKey(fields=fields).digest


def test_a_number_that_is_none_has_no_key() -> None:
    with pytest.raises(ValueError, match="JSON"):
        BuildKey(fields={"scale": float("nan")}).digest  # noqa: B018
