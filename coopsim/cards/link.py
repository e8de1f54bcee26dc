"""What copies between a card and its host take: links, as data with sources (links.toml).

docs/replay.md has the model.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.cards import engine

#: From the request of a copy to its first byte. ASSUMPTION: the time of a small pinned copy on the cards we know of.
LATENCY_NS = 10_000
#: Both directions together, as a multiple of one. ASSUMPTION: the middle of the 1.6 to 1.8 that is reported.
DUPLEX = 1.7
#: The part of a link's nominal speed that copies reach, for cards whose profile has only that (as in cards.profiles).
_REACHED = 0.8
_DEFAULT = "pcie4-x16"
_LEAST, _MOST = 0.001, 1000.0  # GB/s: whole MB/s, and times that stay in 64 bits


@dataclass(frozen=True)
class Link:
    """A link and its host, as a replay knows them. CoopsimError for rates that cannot be.

    rate_mb_s: of a copy alone; shared_rate_mb_s: of one while the other direction is busy; both in whole 10^6 bytes a
    second. latency_ns: of each copy. host_ns: what a copy takes the host (card_file.CardLink); None: not measured.
    """

    name: str
    rate_mb_s: int
    shared_rate_mb_s: int
    latency_ns: int = LATENCY_NS
    host_ns: int | None = None

    def __post_init__(self) -> None:
        most = round(1000 * _MOST)
        if not (0 < self.rate_mb_s <= most and 0 <= self.shared_rate_mb_s <= self.rate_mb_s and self.latency_ns >= 0):
            raise CoopsimError(f"link {self.name}: rates are from 1 to {most} MB/s, the shared one no more than alone")

    def alone_ns(self, nbytes: int) -> int:
        """How long a copy takes while the other direction is idle."""
        return self.latency_ns - -nbytes * 1000 // self.rate_mb_s


class CopyEngines:
    """The two copy engines of a link, by direction (OUT, BACK), each with the copies that it has been given."""

    OUT, BACK = range(2)

    def __init__(self, link: Link) -> None:
        self.link = link
        self.free_at = [0, 0]  #: when each has ended all of them, in ns

    def give(self, direction: int, alone_ns: int, now: int) -> tuple[int, int]:
        """When a copy begins and ends that is given to an engine at `now`, and takes so long alone."""
        rates, free = (self.link.rate_mb_s, self.link.shared_rate_mb_s), self.free_at
        start, free[direction] = engine.span(now, free[direction], free[1 - direction], alone_ns, *rates)
        return start, free[direction]


def of_header(header: Mapping[str, Any]) -> Link | None:
    """The link that a schedule's copies go over, by the schedule's header; None if it was made without one."""
    if "link" not in header:
        return None
    rates = header["rate_mb_s"], header["shared_rate_mb_s"]
    return Link(header["link"], *rates, header["latency_ns"], header.get("link_host_ns"))


@cache
def _all() -> dict[str, tuple[float, str]]:
    text = resources.files("coopsim.cards").joinpath("links.toml").read_text(encoding="utf-8")
    return {name: (entry["gb_s"], entry["source"]) for name, entry in tomllib.loads(text).items()}


def names() -> dict[str, str]:
    """Names for `--link`, each with its speed and where that is from."""
    return {name: f"{gb_s:g} GB/s each way; {source}" for name, (gb_s, source) in _all().items()}


def _of_card(card: str) -> tuple[float, float, int, int | None] | None:
    """What was measured of a card's link: GB/s of a copy alone and of both directions together, ns of its latency and
    of the host; None: nothing."""
    from coopsim.cards import profiles

    measured = profiles.get(card).measured
    if measured is None or measured.link is None:
        return None
    of = measured.link
    return min(of.to_card_gb_s, of.to_host_gb_s), of.duplex_gb_s, of.latency_ns, of.host_ns


def check(name: str | Link, host_gb_s: float | None) -> None:
    """CoopsimError for a link that is not known, or a bandwidth that makes no sense."""
    if isinstance(name, str) and name.endswith(".json"):
        if _of_card(name) is None:
            raise CoopsimError(f"{name}: has no link; measure it with coopsim calibrate --parts link")
        name = ""
    if isinstance(name, Link):
        if host_gb_s is not None:
            raise CoopsimError("host_bandwidth: a link of your own has its shared rate")
        return
    if name and name not in _all():
        raise unknown("link", str(name), _all())
    if host_gb_s is not None and not _LEAST <= host_gb_s <= _MOST:
        raise CoopsimError(f"host_bandwidth: {host_gb_s!r} is not a number of GB/s from {_LEAST} to {_MOST:g}")


def find(name: str | Link, host_gb_s: float | None, header: Mapping[str, Any]) -> Link:
    """The link `name`; without a name that of the card in the header of a trace, else of PCIe 4 with 16 lanes.

    A name that ends in `.json` is a card file's, whose link was measured. host_gb_s: what the host's memory gives both
    directions together, in GB/s; if left out, what was measured, or else 1.7 times the link's speed.
    """
    from coopsim.cards import profiles

    check(name, host_gb_s)
    if isinstance(name, Link):
        return name
    card = header.get("card")
    latency_ns, both, host_ns = LATENCY_NS, None, None
    file = name if name.endswith(".json") else ""
    if file or (not name and card in profiles.names()):
        of = profiles.get(file or str(card))
        name, gb_s = f"{of.name}'s", _REACHED * of.pcie_gbs
        if (found := _of_card(file or of.name)) is not None:
            gb_s, both, latency_ns, host_ns = found
    else:
        name = name or _DEFAULT
        gb_s = _all()[name][0]
    both = DUPLEX * gb_s if both is None else both
    host = both if host_gb_s is None else host_gb_s
    rate = round(1000 * min(gb_s, host))
    return Link(name, rate, min(rate, max(0, round(1000 * host) - rate)), latency_ns, host_ns)
