"""Lookup of machine prices, by the freshest source.

The order is: ``pricing.usd_per_hour``; a recently fetched price; AWS; an older fetched price, with
a warning; the dated list that ships with benchorch. A kind in none of them has no price.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast, final

from benchorch.config.directories import builtin_directory
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.price import Market, Price, PriceSnapshot
from benchorch.domain.trial import ConfigNode
from benchorch.errors import PriceUnavailable
from benchorch.interfaces.price_source import PriceSource

FRESH = {Market.ON_DEMAND: timedelta(hours=24), Market.SPOT: timedelta(hours=1)}
MOST_MOVED = 3.0
"""A price that differs from the last one by a larger factor is rejected as an error."""


def bundled_prices() -> ConfigNode:
    """The dated list that ships with benchorch."""
    import yaml

    text = (builtin_directory("conf") / "prices.yaml").read_text(encoding="utf-8")
    listed = yaml.safe_load(text)
    return {**listed, "as_of": str(listed["as_of"])}


def vcpus_of(hardware: ConfigNode) -> int | None:
    """Virtual CPUs of a hardware node's size; None for a machine without sizes."""
    sizes = cast(Mapping[str, Mapping[str, float]], hardware.get("sizes") or {})
    found = sizes.get(str(hardware.get("size")), {}).get("vcpus")
    return None if found is None else int(found)


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
        now = datetime.now(UTC)
        listed = {kind: self._listed(kind, vcpus.get(kind)) for kind in kinds}
        warnings: list[str] = []
        found: dict[Market, dict[str, Price]] = {}
        for market in Market:
            known = self._known(market, kinds, listed, now, warnings)
            own = {kind: self._own(kind, market, now) for kind in kinds if kind in self.own}
            found[market] = known | own
        old = [kind for kind, price in found[Market.ON_DEMAND].items() if price == listed[kind]]
        if old:
            warnings.append(
                f"{', '.join(sorted(old))}: priced by the list of {self.bundled['as_of']} for "
                f"{self.bundled['region']}; pricing.usd_per_hour states a newer price."
            )
        return PriceSnapshot(
            on_demand=found[Market.ON_DEMAND],
            spot=found[Market.SPOT],
            taken_at=now.isoformat(timespec="seconds"),
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def _known(
        self,
        market: Market,
        kinds: Collection[str],
        listed: Mapping[str, Price | None],
        now: datetime,
        warnings: list[str],
    ) -> dict[str, Price]:
        """Fetched prices, cached or requested now; then the list's, on demand only."""
        cached = self._cached(market)
        missing = {
            kind
            for kind in set(kinds) - set(self.own)
            if kind not in cached
            or now - datetime.fromisoformat(cached[kind].as_of) > FRESH[market]
        }
        if missing and self.source is not None:
            try:
                fetched = self._fetched(market, missing, now)
            except PriceUnavailable as error:
                warnings.append(f"{error} Older prices are used.")
            else:
                cached |= _credible(fetched, cached, listed, warnings)
                self._store(market, cached)
        last_resort = listed if market is Market.ON_DEMAND else {}
        first = {kind: price for kind, price in last_resort.items() if price is not None}
        return first | {kind: cached[kind] for kind in kinds if kind in cached}

    def _fetched(self, market: Market, kinds: Collection[str], now: datetime) -> dict[str, Price]:
        assert self.source is not None
        if market is Market.ON_DEMAND:
            prices = self.source.on_demand(kinds, self.region)
            return {kind: self._price(kind, market, usd, now) for kind, usd in prices.items()}
        spots = self.source.spot(kinds, self.region)
        return {
            kind: self._price(kind, market, usd.median, now, least=usd.least)
            for kind, usd in spots.items()
        }

    def _price(
        self, kind: str, market: Market, usd: float, now: datetime, least: float | None = None
    ) -> Price:
        return Price(
            kind=kind,
            market=market,
            usd_per_hour=usd,
            region=self.region,
            as_of=now.isoformat(timespec="seconds"),
            source="pricing api" if market is Market.ON_DEMAND else "spot history",
            least_usd_per_hour=least,
        )

    def _own(self, kind: str, market: Market, now: datetime) -> Price:
        return Price(
            kind=kind,
            market=market,
            usd_per_hour=self.own[kind],
            region=self.region,
            as_of=now.isoformat(timespec="seconds"),
            source="config",
        )

    def _listed(self, kind: str, vcpus: int | None) -> Price | None:
        """The bundled list's price; None in other regions, whose prices differ."""
        if self.region != self.bundled["region"]:
            return None
        usd = cast(Mapping[str, float], self.bundled["usd_per_hour"]).get(kind)
        per_vcpu = cast(Mapping[str, float], self.bundled["per_vcpu"]).get(kind.split(".")[0])
        if usd is None and per_vcpu is not None and vcpus is not None:
            usd = per_vcpu * vcpus
        if usd is None:
            return None
        return Price(
            kind=kind,
            market=Market.ON_DEMAND,
            usd_per_hour=usd,
            region=self.region,
            as_of=str(self.bundled["as_of"]),
            source=str(self.bundled["source"]),
        )

    def _cached(self, market: Market) -> dict[str, Price]:
        """Prices fetched before; none where the file cannot be read."""
        try:
            content = json.loads(self._file(market).read_text())
            known = {kind: decode(Price, node) for kind, node in content.items()}
            return {kind: price for kind, price in known.items() if isinstance(price, Price)}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _store(self, market: Market, prices: Mapping[str, Price]) -> None:
        """Cache fetched prices; failing to costs one more request later."""
        file = self._file(market)
        half = file.with_suffix(".new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            half.write_text(json.dumps({kind: encode(price) for kind, price in prices.items()}))
            half.replace(file)
        except OSError:
            return

    def _file(self, market: Market) -> Path:
        return self.cache / f"prices-{self.region}-{market}.json"


def _credible(
    fetched: Mapping[str, Price],
    cached: Mapping[str, Price],
    listed: Mapping[str, Price | None],
    warnings: list[str],
) -> dict[str, Price]:
    """Fetched prices, without those of zero and those far from the last known one."""
    accepted: dict[str, Price] = {}
    for kind, price in fetched.items():
        before = cached.get(kind) or (
            listed.get(kind) if price.market is Market.ON_DEMAND else None
        )
        moved = before is not None and not (
            1 / MOST_MOVED <= price.usd_per_hour / before.usd_per_hour <= MOST_MOVED
        )
        if price.usd_per_hour <= 0 or moved:
            reported = f"{kind}: {price.source} reports {price.usd_per_hour:g} USD an hour"
            known = f", the last known is {before.usd_per_hour:g}" if before else ""
            warnings.append(
                f"{reported}{known}; it is rejected. Set the price by pricing.usd_per_hour."
            )
        else:
            accepted[kind] = price
    return accepted
