"""Ranges of numbers that a file may hold: `codec.decode` refuses others, constructors take any."""

import sys
from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**62)]
Positive = Annotated[int, Meta(ge=1, le=2**62)]
Moment = Annotated[int, Meta(ge=-(2**62), le=2**62)]
"""Nanoseconds from some start."""
Real = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""Any but infinities."""
Finite = Annotated[float, Meta(ge=-1e30, le=1e30)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
Items = Annotated[float, Meta(ge=1e-6, le=1e30)]
"""Elements of a call, by which its figures are divided."""
Level = Annotated[float, Meta(gt=0, lt=1)]
"""Confidence of an interval."""
Share = Annotated[float, Meta(ge=0, le=1)]
