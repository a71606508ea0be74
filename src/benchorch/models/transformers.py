"""Models of the transformers library, by the name of their class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

from benchorch.config.components import misspelt
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError, Correction, Problem
from benchorch.frameworks.identity.distributions import installed
from benchorch.models import transformers_catalog as catalog
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.hub_cache import COMMIT, fetch_note
from benchorch.models.seeding import frozen, seeded
from benchorch.models.weights import checkpoint_identity, load_checkpoint

if TYPE_CHECKING:
    import torch

_START = "decoder_input_ids"
_NOT_FITTING = "drop the settings with '~model.config'"
_OF_READING = frozenset(
    {
        *("cache_dir", "force_download", "local_files_only", "proxies", "token", "revision"),
        *("subfolder", "variant", "gguf_file", "return_unused_kwargs", "trust_remote_code"),
        *("weights_only", "use_safetensors", "state_dict", "config", "key_mapping", "use_kernels"),
        *("kernel_config", "allow_all_kernels", "adapter_kwargs", "adapter_name", "device_map"),
        *("offload_folder", "distributed_config", "tp_plan", "device_mesh", "output_loading_info"),
    }
)
_OF_THE_LIBRARY = re.compile(r"\w+")
_IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")
_NOT_FETCHED = (
    "with a connection to the hub, with model.hub_id=FOLDER that save_pretrained wrote, or with "
    "model.pretrained=false, which draws random weights"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersModel(DeclaredModel):
    """A transformers model with seeded random weights, a checkpoint's, or the hub's.

    Attributes:
        architecture: the class, e.g. ``BertModel``.
        config: parameters of its configuration; with `pretrained` they change the hub's.
        pretrained: fetch the weights of `hub_id`, in the dtype in which they were saved; nothing
            is fetched otherwise.
        hub_id: name on the hub, or a folder that save_pretrained wrote.
        revision: a commit of the hub's repository; a branch name may move.
        outputs: fields of the answer, in the order in which they are returned; empty for all.
        limits: the largest value of each symbol, e.g. how many positions were embedded.
        labels: its name for people as ``model``, and others such as its author.
    """

    architecture: str
    config: Mapping[str, Json] = field(default_factory=dict)
    pretrained: bool = False
    hub_id: str | None = None
    revision: str | None = None
    outputs: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    requires = ("torch", "transformers")
    kept = True

    def preload(self) -> None:
        """Import the class."""
        import transformers

        getattr(transformers, self.architecture, None)

    def load(self, seed: int) -> torch.nn.Module:
        """The model, answering with a plain tuple of tensors."""
        # transformers draws on numpy too, so all of it is imported before the seed is set.
        import transformers

        from benchorch.models.architectures.flat import flat

        for problem in self._loading_problems():
            raise BuildError(problem, kind="user_code")
        with _hub(open=self.pretrained):
            kind = getattr(transformers, self.architecture, None)
            if getattr(kind, "config_class", None) is None:
                raise BuildError(
                    f"transformers {transformers.__version__} has no model class "
                    f"{self.architecture!r}.{catalog.near(self.architecture)}"
                )
            with seeded(seed):
                model: Any = self._fetch(kind) if self.pretrained else self._random(kind)
        load_checkpoint(model, self.checkpoint)
        if "use_cache" not in self.config and hasattr(model.config, "use_cache"):
            model.config.use_cache = False  # one call carries nothing to a next one
        names = [spec.name for spec in self.specs()]
        return frozen(flat(model, (*names, *self.kwargs), tuple(self.outputs)))

    def _random(self, kind: Any) -> torch.nn.Module:
        """From the configuration alone."""
        with _refusals(f"{self.architecture} cannot be built from config", "build_refused"):
            config = kind.config_class(**self.config)
            _check_implementations(config)
            model: torch.nn.Module = kind(config)
        return model

    def _fetch(self, kind: Any) -> torch.nn.Module:
        revision = self.revision or "main"
        not_fitting = _NOT_FITTING if self.config else ""
        with _refusals(f"{self.hub_id} cannot be loaded", "checkpoint", not_fitting):
            # Apart from the weights, whose loader takes how to read files from the same keywords.
            config, unused = kind.config_class.from_pretrained(
                self.hub_id, revision=revision, return_unused_kwargs=True, **self.config
            )
            if unknown := [name for name in self.config if name in unused]:
                raise TypeError(f"its configuration has no {', '.join(unknown)}")
            _check_implementations(config)
            model, report = kind.from_pretrained(
                self.hub_id,
                config=config,
                revision=revision,
                dtype="auto",  # as it was saved
                weights_only=True,
                output_loading_info=True,
            )
        if report["missing_keys"]:
            lacking = ", ".join(sorted(report["missing_keys"])[:5])
            raise BuildError(
                f"{self.hub_id} has no weights for {lacking}: they would be random.",
                kind="checkpoint",
                remedy="name an architecture and config that the hub's weights belong to",
            )
        loaded: torch.nn.Module = model
        return loaded

    @property
    def prompt_symbol(self) -> str | None:
        """None without tokens or a cache."""
        found = catalog.architecture(self.architecture) if catalog.is_readable() else None
        arguments = found.arguments if found else None
        specs = {spec.name: spec for spec in self.specs()}
        needed = {"encoder_outputs"} if _START in specs else {"logits_to_keep"}
        if arguments is not None and not {"past_key_values", *needed} <= arguments:
            return None
        ids = specs.get("input_ids")
        if ids is not None and len(ids.shape) == 2:
            return str(ids.shape[1])
        return "" if _START in specs else None

    def load_step(self, seed: int) -> torch.nn.Module:
        """The same weights on the library's own cache."""
        from benchorch.models.architectures.decoder import decoder
        from benchorch.models.architectures.encoder_decoder import encoder_decoder

        model = cast("Any", self.load(seed)).model
        sources = [spec for spec in self.specs() if spec.name != _START]
        if len(sources) == len(self.specs()):
            return frozen(decoder(model))
        return frozen(encoder_decoder(model, sources, self.prompt_symbol or ""))

    def token_ids(self, text: str) -> Sequence[int]:
        """Token ids by the tokenizer beside the weights; empty for random weights."""
        if not self.pretrained:
            return DeclaredModel.token_ids(self, text)
        from transformers import AutoTokenizer

        with _hub(open=True), _refusals(f"{self.hub_id} has no tokenizer", "inputs"):
            tokenizer = AutoTokenizer.from_pretrained(
                self.hub_id, revision=self.revision or "main", trust_remote_code=False
            )
            ids: Sequence[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def identity(self) -> Mapping[str, Json] | None:
        """Identity of module and weights; None for a folder's, or the hub's where no commit is."""
        moves = not COMMIT.fullmatch(self.revision or "") or Path(self.hub_id or "").is_dir()
        if self.pretrained and moves:
            return None
        hub = {"hub_id": self.hub_id, "revision": self.revision, "dtype": "auto"}
        source = hub if self.pretrained else {}
        return {
            "class": "benchorch.models.transformers.TransformersModel",
            "version": self.version,
            "architecture": self.architecture,
            "config": dict(self.config),
            "outputs": list(self.outputs),
            **checkpoint_identity(self.checkpoint),
            "packages": dict(installed(self.requires)),
            **source,
        }

    def notes(self, *, here: bool) -> Sequence[str]:
        """That its weights are fetched, or cannot be."""
        if not self.pretrained or not self.hub_id:
            return ()
        note = fetch_note(self.hub_id, self.revision or "main", here=here)
        return (note,) if note else ()

    def problems(self, workload: Workload) -> Sequence[str]:
        """Architecture, configuration, names of inputs, limits, source of weights."""
        return [
            *self._source_problems(),
            *self._loading_problems(),
            *self._architecture_problems(),
            *self.declared_problems(workload),
            *self._limit_problems(workload),
        ]

    def _source_problems(self) -> list[str]:
        if self.pretrained and not self.hub_id:
            return ["model.pretrained: is true but hub_id names no model; set hub_id=..."]
        if self.pretrained and self.checkpoint:
            return [
                "model.checkpoint: weights cannot come from a checkpoint and from the hub at once."
            ]
        return []

    def _loading_problems(self) -> list[str]:
        """What would choose files, or code of the hub, instead of the architecture."""
        return [
            f"model.config.{name}: is of how files are read, and no setting of an architecture."
            for name in self.config
            if name in _OF_READING or name.startswith("_")
        ] + [
            f"model.config.{name}: {value!r} would be code of the hub; name an implementation of "
            "transformers itself, such as sdpa."
            for name in _IMPLEMENTATIONS
            for value in _leaves(self.config.get(name))
            if not _OF_THE_LIBRARY.fullmatch(value)
        ]

    def _architecture_problems(self) -> list[str]:
        if not catalog.is_readable():
            return []
        found = catalog.architecture(self.architecture)
        if found is None:
            return [
                f"model.architecture: transformers has no model {self.architecture!r}."
                f"{catalog.near(self.architecture)}"
            ]
        return [
            *_unknown("model.config", self.config, found.settings, "setting"),
            *_unknown("model.inputs", self.input_names(), found.arguments, "argument"),
        ]

    def _limit_problems(self, workload: Workload) -> list[str]:
        return [
            Problem(
                f"symbol {symbol!r} is {workload.symbols[symbol]}, above the {largest} that "
                f"{self.architecture} was built for; lower workload.{symbol}.",
                Correction(settings=[f"workload.{symbol}={largest}"]),
            )
            for symbol, largest in self.limits.items()
            if workload.symbols.get(symbol, 0) > largest
        ]


def _check_implementations(config: Any) -> None:
    """ValueError where a configuration, a saved one or a part of it, names code of the hub."""
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    for name in _IMPLEMENTATIONS:
        for part in (config, *parts):
            value = getattr(part, f"_{name}", None)
            if isinstance(value, str) and not _OF_THE_LIBRARY.fullmatch(value):
                raise ValueError(f"its {name} {value[:80]!r} would be code of the hub")


def _leaves(value: Json) -> Iterator[str]:
    """Texts of a name, or of one for each part of a model."""
    if isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _leaves(part))
    elif value is not None:
        yield str(value)


def _unknown(
    where: str, names: Iterable[str], known: frozenset[str] | None, what: str
) -> list[str]:
    """Names that the architecture does not have; none where they cannot be read."""
    return [
        misspelt(f"{where}.{name}: this architecture has no such {what}.", name, known)
        for name in names
        if known is not None and name not in known
    ]


@contextmanager
def _hub(*, open: bool) -> Iterator[None]:
    """Allow or forbid requests to the hub; restored afterwards."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not open
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _refusals(what: str, kind: str, not_fitting: str = "") -> Iterator[None]:
    """The library's own complaints, of whatever class, as a BuildError.

    Args:
        not_fitting: the remedy for a checkpoint that was read and does not fit.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        remedy = ""
        if isinstance(error, ImportError):
            kind, remedy = "missing_package", "install the package that the message names"
        elif kind == "checkpoint":
            remedy = _NOT_FETCHED if isinstance(error, OSError) else not_fitting
        raise BuildError(f"{what}: {str(error).strip()}", kind=kind, remedy=remedy) from error
