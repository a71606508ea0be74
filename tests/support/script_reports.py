"""A model with a call, as the process of a script reports it."""

from __future__ import annotations

from typing import Any

CALL: dict[str, Any] = {
    "hash": "c0",
    "signature": ["float32[1, 3]"],
    "calls": 1,
    "seconds": 0.5,
    "inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32"}],
    "obstacle": "",
}
MODEL: dict[str, Any] = {
    "name": "net",
    "hash": "m0",
    "class": "torch.nn.Linear",
    "file": "/x.py",
    "line": 3,
    "called_from": "x.py:4",
    "depth": 0,
    "instances": 1,
    "calls": 1,
    "seconds": 0.5,
    "parameters": 12,
    "parameter_bytes": 48,
    "buffer_bytes": 0,
    "dtypes": ["float32"],
    "generates": False,
    "more_signatures": 0,
    "invocations": [CALL],
}
