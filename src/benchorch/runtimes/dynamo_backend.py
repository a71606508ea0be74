"""What a backend of torch.compile raises, without what Dynamo wraps around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raised_by_backend() -> Iterator[None]:
    """The backend's own exception."""
    from torch._dynamo.exc import BackendCompilerFailed

    try:
        yield
    except BackendCompilerFailed as error:
        raise error.inner_exception from error.inner_exception.__cause__
