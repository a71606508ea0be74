"""Model configurations of the calls found in a script."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.files import file_digest, write_text
from benchorch.frontends.scripts.discover import Script
from benchorch.models.saved_language_model import WEIGHTS
from benchorch.models.script_files import MODEL_SUFFIXES

RUNS_AGAIN = "script runs each time"
"""What the name of a row has whose module could not be captured."""

_DTYPES = ("float64", "float16")  # what workload.dtype can be besides its default


def write_configs(script: Script, found: ConfigNode) -> dict[str, Path]:
    """A file for each call that can be made again; names for ``model=``, with their files."""
    folder = script.folder / "conf" / "model"
    digest = file_digest(script.path)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    calls = list(benchmarkable(found))
    for (model, call), title in zip(calls, _titles(script, calls), strict=True):
        name = f"{_called(script, model)}_{call['hash']}_{script.digest}"
        written[name] = folder / f"{name}.yaml"
        labels = cast("Mapping[str, Sequence[str]]", found["labels"])
        write_text(written[name], _yaml(script, digest, labels, model, call, title))
    return written


def _called(script: Script, model: ConfigNode) -> str:
    """The class of a script's model; of a file that is a model, the file's own name.

    In the letters of a name in Hydra's grammar: a class made by ``type()`` may have any.
    """
    is_model = script.path.suffix in MODEL_SUFFIXES
    name = script.path.stem if is_model else str(model["class"]).rpartition(".")[2]
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def benchmarkable(found: ConfigNode) -> Iterator[tuple[ConfigNode, ConfigNode]]:
    """Each call whose inputs were kept, with its model."""
    for model in cast("list[ConfigNode]", found["models"]):
        for call in cast("list[ConfigNode]", model["invocations"]):
            if "model" in call:
                yield model, call


def _yaml(
    script: Script,
    digest: str,
    labels: Mapping[str, Sequence[str]],
    model: ConfigNode,
    call: ConfigNode,
    title: str,
) -> str:
    import yaml

    fields = dict(cast("Mapping[str, Json]", call["model"]))
    source: dict[str, Json] = {
        "_target_": "benchorch.models.script.ScriptModel",
        "script": str(script.path),
        "digest": digest,
        "call": call["hash"],
        "arguments": list(script.arguments),
        "max_depth": script.depth,
    }
    if "program" in fields:
        source = {"_target_": "benchorch.models.exported.ExportedModel"}
    elif "bundle" in fields:
        source = {"_target_": "benchorch.models.bundled.BundledModel"}
    elif WEIGHTS in fields:
        source = {"_target_": "benchorch.models.transformers.TransformersModel"}
    node: dict[str, Json] = {
        **source,
        "architecture": str(model["class"]).rpartition(".")[2],
        "labels": {
            **{key: "/".join(values) for key, values in labels.items()},
            "script": script.place or script.path.name,
            "model": f"{title} ({RUNS_AGAIN})" if call.get("not_captured") else title,
        },
        "checkpoint": None,
        **fields,
    }
    head = f"# {model['name']} of {script.path.name}, called with {described(call)}."
    return f"{head}\n{yaml.safe_dump(node, sort_keys=False)}"


def _titles(script: Script, calls: Sequence[tuple[ConfigNode, ConfigNode]]) -> list[str]:
    """A name for people of each call: ``script.py:model``, and what tells it from the others."""
    name = script.title or script.path.name
    plain = [".".join([f"{name}:{m['name']}", *_step(call)]) for m, call in calls]
    shaped = [f"{t} {_shapes(c)}" for t, (_, c) in zip(plain, calls, strict=True)]
    exact = [f"{t} {c['hash']}" for t, (_, c) in zip(shaped, calls, strict=True)]
    return [
        next(title for title, among in choices if among.count(title) == 1)
        for choices in zip(
            *([(title, among) for title in among] for among in (plain, shaped, exact)),
            strict=True,
        )
    ]


def _step(call: ConfigNode) -> list[str]:
    """The step of a LightningModule that its Trainer called, if it was one."""
    return [str(call["step"])] if "step" in call else []


def _shapes(call: ConfigNode) -> str:
    plain, held = _inputs(call)
    words = [str(each["shape"]).replace(" ", "") for each in plain]
    return " ".join([*words, *held])


def _inputs(call: ConfigNode) -> tuple[list[ConfigNode], Counter[str]]:
    """A call's tensors, and of the objects that hold further ones how many each holds."""
    inputs = cast("Sequence[ConfigNode]", call["inputs"])
    plain = [each for each in inputs if "held_by" not in each]
    return plain, Counter(str(each["held_by"]) for each in inputs if "held_by" in each)


def described(call: ConfigNode) -> str:
    """A call's tensors: ``x float32[1, 10], mask int64[1, 10]``."""
    plain, held = _inputs(call)
    words = [f"{each['name']} {each['dtype']}{each['shape']}" for each in plain]
    words += [f"{name} of {count} tensors" for name, count in held.items()]
    return ": ".join([*_step(call), ", ".join(words) or "no tensors"])


def bundled_sources(founds: Sequence[ConfigNode]) -> list[str]:
    """Files of the scripts' own code that loading their models runs, but for the scripts."""
    nodes = (cast(ConfigNode, call["model"]) for f in founds for _, call in benchmarkable(f))
    return [str(node["source"]) for node in nodes if "bundle" in node]


def words_for(
    scripts: Mapping[Script, Mapping[str, Path]], founds: Sequence[ConfigNode]
) -> list[str]:
    """The words that benchmark these models: ``--config-dir ... model=[...]``."""
    names = [name for written in scripts.values() for name in written]
    folders = dict.fromkeys(script.folder / "conf" for script, w in scripts.items() if w)
    words = [word for folder in folders for word in ("--config-dir", str(folder))]
    chosen = names[0] if len(names) == 1 else f"[{','.join(names)}]"
    return [*words, f"model={chosen}", *_dtype_words(founds)]


def prompt_words(founds: Sequence[ConfigNode]) -> list[str]:
    """The size of the prompts from which the language models generate, where all have the same."""
    shapes = {
        tuple(cast("list[int]", each["shape"]))
        for found in founds
        for _, call in benchmarkable(found)
        for each in cast("list[ConfigNode]", call["inputs"])
        if WEIGHTS in cast(ConfigNode, call["model"]) and each["name"] == "input_ids"
    }
    keys = ("workload.batch_size", "workload.prompt_tokens")
    shape = shapes.pop() if len(shapes) == 1 else ()
    return [f"{key}={size}" for key, size in zip(keys, shape, strict=False)]


def _dtype_words(founds: Sequence[ConfigNode]) -> list[str]:
    """The precision that all of the models have, where it is not the default."""
    dtypes = {
        tuple(cast("list[str]", model["dtypes"]))
        for found in founds
        for model, _ in benchmarkable(found)
    }
    only = next(iter(dtypes)) if len(dtypes) == 1 else ()
    return [f"workload.dtype={only[0]}"] if len(only) == 1 and only[0] in _DTYPES else []
