"""Lookup of machine prices, by the freshest source.

The order is: ``pricing.usd_per_hour``; a recently fetched price; AWS; the newer one of an older
fetched price and the dated list that ships with benchorch, with a warning. A kind in none of them
has no price.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast, final

from benchorch.config.components import TARGET
from benchorch.config.directories import builtin_directory
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.errors import PriceUnavailable
from benchorch.files import read_json, write_json, yaml_loader
from benchorch.interfaces.price_source import PriceSource

FRESH = {Market.ON_DEMAND: timedelta(hours=24), Market.SPOT: timedelta(hours=1)}
MOST_MOVED = 3.0
"""A price that differs from the last one by a larger factor is rejected as an error."""

SPOT_LEAST, SPOT_MOST = 0.05, 1.5
"""A first spot price outside of these shares of the on-demand price is rejected: AWS promises up to
90 % off."""


def bundled_prices() -> ConfigNode:
    """The dated list that ships with benchorch."""
    text = (builtin_directory("conf") / "prices.yaml").read_text(encoding="utf-8")
    listed = yaml_loader()(text).get_single_data()
    return {**listed, "as_of": str(listed["as_of"])}


def is_sold_in_blocks(kind: str) -> bool:
    """Whether AWS sells a kind in capacity blocks, so that no list has an hour's price."""
    return kind.split(".")[0] in cast(Sequence[str], bundled_prices()["blocks"])


def vcpus_of(hardware: ConfigNode) -> int | None:
    """Virtual CPUs of a hardware node's size; None for a machine without sizes."""
    found = node_of(node_of(hardware, "sizes"), str(hardware.get("size"))).get("vcpus")
    return found if isinstance(found, int) else None


def gpus_of(hardware: ConfigNode) -> int:
    """GPUs of a hardware node's size, of which a trial uses one; 1 for every other machine."""
    if not str(hardware.get(TARGET, "")).endswith(".CudaHardware"):
        return 1
    found = node_of(node_of(hardware, "sizes"), str(hardware.get("size"))).get("accelerators", 1)
    return found if isinstance(found, int) else 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Looks prices up.

    Attributes:
        region: whose prices.
        own: the user's, dollars an hour by kind; they count in both markets.
        source: the service to query, or None.
        cache: directory of fetched prices.
        bundled: the list that ships with benchorch.
    """

    region: str
    own: Mapping[str, float]
    source: PriceSource | None
    cache: Path
    bundled: Mapping[str, Json]

    def snapshot(self, kinds: Collection[str], vcpus: Mapping[str, int]) -> PriceSnapshot:
        """The prices of these kinds now.

        Args:
            kinds: of machines, e.g. ``g5.xlarge``.
            vcpus: virtual CPUs by kind, for families whose price follows from them.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        found = {kind: self._listed(kind, vcpus.get(kind)) for kind in kinds}
        listed = {kind: price for kind, price in found.items() if price is not None}
        warnings: list[str] = []
        on_demand = listed | self._known(Market.ON_DEMAND, kinds, listed, now, warnings)
        spot = self._known(Market.SPOT, kinds, on_demand, now, warnings)
        old = {kind: price for kind, price in on_demand.items() if price is listed.get(kind)}
        for as_of in sorted({price.as_of for price in old.values()}):
            kinds_then = sorted(kind for kind, price in old.items() if price.as_of == as_of)
            warnings.append(
                f"{', '.join(kinds_then)}: priced by the list of {as_of} for "
                f"{self.region}; pricing.usd_per_hour sets a newer price."
            )
        distinct = tuple(dict.fromkeys(warnings))
        return PriceSnapshot(on_demand=on_demand, spot=spot, taken_at=now, warnings=distinct)

    def _known(
        self,
        market: Market,
        kinds: Collection[str],
        listed: Mapping[str, Price],
        now: str,
        warnings: list[str],
    ) -> dict[str, Price]:
        """The user's prices, and fetched ones, cached or requested now."""
        cached = self._cached(market)
        fresh = datetime.fromisoformat(now) - FRESH[market]
        missing = {
            kind
            for kind in set(kinds) - set(self.own)
            if kind not in cached or datetime.fromisoformat(cached[kind].as_of) < fresh
        }
        if missing and self.source is not None:
            try:
                fetched = self._fetched(self.source, market, missing, now)
            except PriceUnavailable as error:
                warnings.append(f"{error} Older prices are used.")
            else:
                cached |= _credible(fetched, cached, listed, warnings)
                self._store(market, cached)
        own = {
            kind: self._price(kind, market, self.own[kind], now, "config")
            for kind in kinds
            if kind in self.own
        }
        found = {kind: cached[kind] for kind in kinds if kind in cached and kind not in own}
        newest = {k: price for k, price in found.items() if not _is_older(price, listed.get(k))}
        warnings.extend(_of_old(newest, fresh))
        return newest | own

    def _fetched(
        self, source: PriceSource, market: Market, kinds: Collection[str], now: str
    ) -> dict[str, Price]:
        if market is Market.ON_DEMAND:
            prices = source.on_demand(kinds, self.region)
            return {
                kind: self._price(kind, market, usd, now, "pricing api")
                for kind, usd in prices.items()
            }
        return {
            kind: self._price(kind, market, usd.median, now, "spot history", usd.least)
            for kind, usd in source.spot(kinds, self.region).items()
        }

    def _price(
        self,
        kind: str,
        market: Market,
        usd: float,
        as_of: str,
        source: str,
        least: float | None = None,
    ) -> Price:
        return Price(
            kind=kind,
            market=market,
            usd_per_hour=usd,
            region=self.region,
            as_of=as_of,
            source=source,
            least_usd_per_hour=least,
        )

    def _listed(self, kind: str, vcpus: int | None) -> Price | None:
        """The bundled list's newest price; None in regions that it lacks, whose prices differ."""
        also = cast(Sequence[Mapping[str, Json]], self.bundled.get("also", ()))
        here = [
            part
            for part in (self.bundled, *also)
            if part.get("region", self.bundled["region"]) == self.region
        ]
        for part in sorted(here, key=lambda part: str(part["as_of"]), reverse=True):
            usd = cast(Mapping[str, float], part.get("usd_per_hour", {})).get(kind)
            family = cast(Mapping[str, float], part.get("per_vcpu", {})).get(kind.split(".")[0])
            if usd is None and family is not None and vcpus is not None:
                usd = family * vcpus
            if usd is not None:
                as_of, source = str(part["as_of"]), str(part["source"])
                return self._price(kind, Market.ON_DEMAND, usd, as_of, source)
        return None

    def _cached(self, market: Market) -> dict[str, Price]:
        """Prices fetched before; none where the file cannot be read."""
        try:
            content = read_json(self._file(market))
            return {k: decode(Price, node) for k, node in content.items() if isinstance(node, dict)}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _store(self, market: Market, prices: Mapping[str, Price]) -> None:
        """Cache fetched prices; failing to costs one more request later."""
        file = self._file(market)
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, {kind: encode(price) for kind, price in prices.items()})

    def _file(self, market: Market) -> Path:
        return self.cache / f"prices-{self.region}-{market}.json"


def _is_older(price: Price, listed: Price | None) -> bool:
    """Whether the list has a newer price of the same market."""
    if listed is None or listed.market is not price.market:
        return False
    return datetime.fromisoformat(price.as_of).date() < datetime.fromisoformat(listed.as_of).date()


def _of_old(prices: Mapping[str, Price], fresh: datetime) -> Iterator[str]:
    """Warnings about prices that were fetched before that moment, one a day."""
    days: dict[str, list[str]] = {}
    for kind, price in prices.items():
        fetched = datetime.fromisoformat(price.as_of)
        if fetched < fresh:
            market = price.market.replace("_", "-")
            days.setdefault(f"{market} price of {fetched.date()}", []).append(kind)
    for price_then, kinds in sorted(days.items()):
        yield (
            f"{', '.join(sorted(kinds))}: priced by the {price_then}, when AWS was last queried; "
            "pricing.source=aws fetches the present one, pricing.usd_per_hour sets it."
        )


def _credible(
    fetched: Mapping[str, Price],
    cached: Mapping[str, Price],
    listed: Mapping[str, Price],
    warnings: list[str],
) -> dict[str, Price]:
    """Fetched prices, without those of zero and those far from the last known one."""
    accepted: dict[str, Price] = {}
    for kind, price in fetched.items():
        before = cached.get(kind) or listed.get(kind)
        if before is None:
            least, most = 1.0, 1.0
        elif before.market is price.market:
            least, most = 1 / MOST_MOVED, MOST_MOVED
        else:
            least, most = SPOT_LEAST, SPOT_MOST
        ratio = price.usd_per_hour / before.usd_per_hour if before else 1.0
        if price.usd_per_hour > 0 and least <= ratio <= most:
            accepted[kind] = price
        else:
            known = f", the last known is {before.usd_per_hour:g}" if before else ""
            warnings.append(
                f"{kind}: {price.source} reports {price.usd_per_hour:g} USD an hour{known}; it is "
                "rejected. Set the price by pricing.usd_per_hour."
            )
    return accepted
