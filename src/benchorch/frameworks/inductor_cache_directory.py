"""Directory of Inductor's own cache while it compiles for one artifact."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def inductor_cache(directory: Path) -> Iterator[None]:
    """Inductor reads and writes its cache here; it takes the place from the environment alone."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(directory)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before
