"""Read a card file: what `coopsim calibrate` measured of a card (docs/reference/files.md has the format)."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from coopsim.base.errors import PhantomError
from coopsim.cards.context import LIBRARIES, ContextReading, Readings

VERSION = 1  #: of the format
SUFFIX = ".json"  #: by which a card's file is told from a card's name

_MOST_BYTES = 1 << 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_PARTS = ("context", "prices", "workspaces", "link", "addresses", "host_ns_per_op")
_WHOLE = ("memory_mib", "sms", "threads_per_sm", "shared_per_sm_kib", "shared_optin_kib", "l2_kib")
_RATES = ("fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops", "bandwidth_gbs")
_LINKS = ("nvlink_gbs", "pcie_gbs", "network_gbs")
_TEXTS = ("name", "title", "compute_capability", "source")
_WITH = ("by", "date", "driver", "torch", "cuda", "cudnn", "python")


@dataclass(frozen=True)
class CardLink:
    """Copies between card and host, in 1e9 bytes per second, of pinned memory unless they are `pageable`.

    duplex_gb_s: both directions together. latency_ns: of a small pinned copy. host_ns: what a copy takes the host, as
    live begins it and lets ops wait for it, one after the other; None: not measured.
    """

    to_card_gb_s: float
    to_host_gb_s: float
    duplex_gb_s: float
    pageable_to_card_gb_s: float
    pageable_to_host_gb_s: float
    latency_ns: int
    host_ns: int | None = None


@dataclass(frozen=True)
class Measured:
    """What was measured of a card: by whom, when (ISO 8601, UTC), with which versions, and the parts that were.

    prices: coefficients by class of op. host_ns_per_op: what PyTorch's host takes for an op that costs the card less.
    """

    by: str
    date: str
    versions: Mapping[str, str]
    parts: tuple[str, ...]
    context: tuple[Readings, ...] = ()
    prices: Mapping[str, Any] = field(default_factory=dict)
    link: CardLink | None = None
    host_ns_per_op: int | None = None

    @property
    def summary(self) -> str:
        """One line: what, when and by whom."""
        parts = ", ".join(part.replace("host_ns_per_op", "host time") for part in self.parts)
        return f"{parts}; {self.date[:10]}, {self.by}"


def is_one(name: str) -> bool:
    """Return whether a card is named by its file."""
    return name.endswith(SUFFIX)


def read(path: str | Path, base: Callable[[str], Mapping[str, Any]]) -> tuple[dict[str, Any], Measured]:
    """Return the fields of the card's profile, and what was measured of it. `base` gives a known profile's fields.

    Raises PhantomError, one line with the file and the reason, for a file that is none, is damaged or newer, or was
    made in a dry run on the phantom GPU, which measures nothing.
    """
    where = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PhantomError(f"{where}: no such file") from None
    except (OSError, UnicodeDecodeError) as e:
        raise PhantomError(f"{where}: cannot be read ({getattr(e, 'strerror', None) or 'no text'})") from None
    return parse(text, where, base)


def parse(text: str, where: str, base: Callable[[str], Mapping[str, Any]]) -> tuple[dict[str, Any], Measured]:
    """As `read`, for the text of a file that errors call `where`."""
    try:
        content = json.loads(text, parse_constant=lambda word: _fail(where, f"{word} is no number"))
    except (ValueError, RecursionError):
        raise PhantomError(f"{where}: no card file (not JSON); `coopsim calibrate` makes one") from None
    whole = _Object(content, where, "")
    if "card_version" not in whole.content:
        raise PhantomError(f"{where}: no card file (it has no card_version); `coopsim calibrate` makes one")
    version = whole.number("card_version", least=1, whole=True)
    if version != VERSION:
        _fail(where, f"card file of version {version}, and this coopsim reads version {VERSION}")
    whole.known("card_version", "phantom", "card", "measured", *_PARTS)
    if whole.take("phantom", bool, "true or false"):
        _fail(where, "made on the phantom GPU, which measures nothing; calibrate on the card itself")
    parts = tuple(part for part in _PARTS if part in whole.content)
    versions = whole.object("measured")
    versions.known(*_WITH, "nvidia_smi")
    versions.object("nvidia_smi")
    said = {key: versions.text(key, empty=key in ("driver", "cudnn")) for key in _WITH}
    measured = Measured(
        by=said.pop("by"),
        date=said.pop("date"),
        versions=said,
        parts=parts,
        context=_context(whole) if "context" in parts else (),
        prices=_prices(whole) if "prices" in parts else {},
        link=_link(whole) if "link" in parts else None,
        host_ns_per_op=int(whole.number("host_ns_per_op", whole=True)) if "host_ns_per_op" in parts else None,
    )
    for part, keys in (("workspaces", ("bytes",)), ("addresses", ("bytes", "address"))):
        if part in parts:
            for row in whole.objects(part):
                for key in keys:
                    row.number(key, whole=True, most=1 << 62)
    card = whole.object("card")
    if "context" not in parts and "profile" not in card.content:
        _fail(where, "has no context, and card names no profile to take it from")
    return _card(card, base), measured


def text(content: Mapping[str, Any]) -> str:
    """Return the text of a card file, one line per part, or per row of a part that has rows."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) or key == "prices":
            many = value.items() if isinstance(value, dict) else enumerate(value)
            rows = (f"  {json.dumps(k) + ': ' if key == 'prices' else ''}{json.dumps(v)}" for k, v in many)
            brackets = "{}" if isinstance(value, dict) else "[]"
            lines.append(f' "{key}": {brackets[0]}\n' + ",\n".join(rows) + f"\n {brackets[1]}")
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _card(card: "_Object", base: Callable[[str], Mapping[str, Any]]) -> dict[str, Any]:
    every = (*_TEXTS, *_WHOLE, *_RATES, *_LINKS)
    card.known("profile", *every)
    found: dict[str, Any] = {}
    if "profile" in card.content:
        try:
            found = dict(base(card.text("profile")))
        except PhantomError as e:
            _fail(card.where, f"card.profile: {e}")
    elif lacking := [key for key in every if key not in card.content]:
        _fail(card.where, f"card lacks {lacking[0]}, and names no profile to take it from")
    for key in every:
        if key not in card.content:
            continue
        if key in _TEXTS:
            found[key] = card.text(key)
        else:
            zero = key in (*_LINKS, *_RATES) and key not in ("fp32_tflops", "bandwidth_gbs", "pcie_gbs")
            found[key] = card.number(key, least=0 if zero else 1e-3, whole=key in _WHOLE, most=1 << 30)
    if not _NAME.fullmatch(found["name"]):
        _fail(card.where, f"card.name {found['name'][:40]!r} is not of small letters, digits and hyphens")
    if not _CAPABILITY.fullmatch(found["compute_capability"]):
        _fail(card.where, f"card.compute_capability {found['compute_capability'][:40]!r} is not such as 9.0")
    return found


def _context(whole: "_Object") -> tuple[Readings, ...]:
    found = []
    for one in whole.objects("context"):
        one.known("torch", "cuda", "driver", "readings")
        readings = []
        for row in one.objects("readings"):
            row.known("after", "loaded", "bytes")
            row.text("after")
            loaded = row.take("loaded", list, "a list")
            if any(name not in LIBRARIES for name in loaded) or len(set(loaded)) < len(loaded):
                _fail(row.where, f"{row.path}.loaded: names from {', '.join(LIBRARIES)}, each once")
            readings.append(ContextReading(tuple(loaded), int(row.number("bytes", whole=True))))
        if not readings:
            _fail(one.where, f"{one.path}.readings is empty")
        found.append(Readings(one.text("torch"), one.text("cuda"), one.text("driver", empty=True), tuple(readings)))
    if not found:
        _fail(whole.where, "context is empty")
    return tuple(found)


def _prices(whole: "_Object") -> dict[str, Any]:
    prices = whole.object("prices")
    for key, value in prices.content.items():
        if isinstance(value, dict):
            of = prices.object(key)
            for name in value:
                of.number(name)
        else:
            prices.number(key)
    return dict(prices.content)


def _link(whole: "_Object") -> CardLink:
    link = whole.object("link")
    keys = tuple(CardLink.__dataclass_fields__)
    link.known(*keys)
    rates = {key: link.number(key, least=1e-3, most=1000) for key in keys if key.endswith("gb_s")}
    host_ns = int(link.number("host_ns", whole=True)) if "host_ns" in link.content else None
    return CardLink(**rates, latency_ns=int(link.number("latency_ns", whole=True)), host_ns=host_ns)


@dataclass(frozen=True)
class _Object:
    """An object of the file `where`, at `path` ("" is the top). Its methods raise PhantomError with both."""

    content: Any
    where: str
    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.content, dict):
            _fail(self.where, f"{self.path or 'the file'} is no JSON object")

    def _name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def known(self, *keys: str) -> None:
        """Refuse other keys than these."""
        for key in self.content:
            if key not in keys:
                _fail(self.where, f"unknown key {self._name(key)[:80]!r}")

    def take(self, key: str, kind: type, said: str) -> Any:
        if key not in self.content:
            _fail(self.where, f"{self._name(key)} is missing")
        value = self.content[key]
        if not isinstance(value, kind):
            _fail(self.where, f"{self._name(key)} is not {said}")
        return value

    def text(self, key: str, *, empty: bool = False) -> str:
        value: str = self.take(key, str, "a text")
        if not (value or empty) or not value.isprintable() or len(value) > 500:
            _fail(self.where, f"{self._name(key)} is not one short line of text")
        return value

    def number(self, key: str, *, least: float = 0, most: float = _MOST_BYTES, whole: bool = False) -> float:
        value = self.take(key, int if whole else (int | float), "a whole number" if whole else "a number")  # type: ignore[arg-type]
        if isinstance(value, bool) or not (math.isfinite(value) and least <= value <= most):
            _fail(self.where, f"{self._name(key)} is not from {least:g} to {most:g}")
        return value  # type: ignore[no-any-return]

    def object(self, key: str) -> "_Object":
        return _Object(self.take(key, dict, "an object"), self.where, self._name(key))

    def objects(self, key: str) -> "list[_Object]":
        rows = self.take(key, list, "a list")
        return [_Object(row, self.where, f"{self._name(key)}[{i}]") for i, row in enumerate(rows)]


def _fail(where: str, why: str) -> NoReturn:
    raise PhantomError(f"{where}: {why}")
