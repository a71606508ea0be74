"""Whether the hub's weights are on this machine, found without its packages."""

import re
from pathlib import Path

from benchorch.files import read_small
from benchorch.host.sandbox import hub_closed_by, model_caches

_MOST_BYTES = 100
COMMIT = re.compile(r"[0-9a-f]{40}")
"""What names one state of a repository; every other name may move."""


def fetch_note(repository: str, revision: str, *, here: bool) -> str:
    """What fetching these weights means; empty for a folder and for weights that are here.

    Args:
        here: whether this machine loads them, so that its cache counts.
    """
    if Path(repository).is_dir():
        return ""
    if not here:
        return f"model.pretrained: each machine fetches the weights of {repository} from the hub."
    cache = Path(model_caches()["HF_HUB_CACHE"])
    if _is_cached(cache, repository, revision):
        return ""
    offline = hub_closed_by()
    if not offline:
        return (
            f"model.pretrained: the weights of {repository} are not in {cache} and are fetched "
            "from the hub."
        )
    return (
        f"model.pretrained: the weights of {repository} cannot be fetched, because {offline} is "
        f"set and {cache} lacks them; model.pretrained=false draws random weights."
    )


def _is_cached(cache: Path, repository: str, revision: str) -> bool:
    """Whether the hub's cache has weights of the commit that a revision names."""
    folder = cache / f"models--{repository.replace('/', '--')}"
    commit = revision if COMMIT.fullmatch(revision) else _commit_of(folder / "refs", revision)
    files = (folder / "snapshots" / commit).glob("*") if commit else ()
    return any(path.suffix in (".safetensors", ".bin") and path.exists() for path in files)


def _commit_of(names: Path, revision: str) -> str:
    """The commit that a name stands for; empty where the cache does not know it."""
    place = names / revision
    if names not in place.parents or ".." in place.parts:
        return ""
    try:
        found = read_small(place, most_bytes=_MOST_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""
    return found if COMMIT.fullmatch(found) else ""
