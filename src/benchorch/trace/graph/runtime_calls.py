"""What do the calls into a device's runtime mean? By name, for the runtimes that profilers know."""

from __future__ import annotations

import re

CONTEXT_SYNC = re.compile(r"(Device|Ctx|Context|Thread)Synchronize|SynchronizeDevice")
STREAM_SYNC = re.compile(r"StreamSynchronize|SynchronizeStream")
EVENT_SYNC = re.compile(r"EventSynchronize|SynchronizeEvent")
STREAM_WAIT = re.compile(r"StreamWaitEvent")
BLOCKING_COPY = re.compile(r"Memcpy(?!.*Async)")
"""Returns only after its copy."""
COPY = re.compile(r"Memcpy")
"""Returns only after its copy at least where the host's memory is pageable."""
LOCKING = re.compile(r"Launch|Memcpy|Memset|Malloc|Free|HostAlloc|HostRegister")
"""Takes the lock that all threads of a process share."""
