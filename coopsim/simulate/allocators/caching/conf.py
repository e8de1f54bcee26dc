"""The string of PYTORCH_CUDA_ALLOC_CONF, read and refused as each version of PyTorch does.

Up to 2.9 one parser goes through the string and wants every colon and comma in its place. From 2.10 on two parsers go
through it, one for what all accelerators share and one for CUDA, each skips what is the other's, and neither looks at
what stands where a colon or a comma should be. Both read numbers with the C++ standard library, so `64abc` is 64.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coopsim.base.errors import unknown
from coopsim.base.types import MIB, CoopsimError
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.numbers import stod, stoi, stoull
from coopsim.simulate.allocators.caching.rounding import INTERVALS
from coopsim.simulate.allocators.caching.settings import CachingSettings
from coopsim.simulate.allocators.caching.version import Version

_SHARED = {
    "expandable_segments",
    "garbage_collection_threshold",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_use_background_threads",
    "roundup_power2_divisions",
}
_MOST_MIB = ((1 << 64) - 1) // MIB
_MOST_REGISTER_THREADS = 128
_RESERVE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([gG]?)")


def parse(text: str, version: Version) -> CachingSettings:
    """What the string says. Raises CoopsimError, one line, where that version of torch refuses it.

    A backend other than native is refused too: it is another allocator.
    """
    settings = CachingSettings()
    try:
        if version.shared_settings:
            _parse_shared(text, version, settings)
        else:
            _Old(text, version, settings).parse()
    except CoopsimError as e:
        raise CoopsimError(f"torch {version.name} refuses the allocator settings {text!r}: {e}") from None
    return settings


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CoopsimError(message)


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _bytes(mib: int) -> int:
    """MiB as bytes; more than can be said in 64 bits is no limit."""
    return min(min(mib, _MOST_MIB) * MIB, c.UNLIMITED)


def _split(text: str, blanks: str) -> list[str]:
    """Tokens: the four special characters, and what is between them without blanks."""
    return re.findall(r"[,:[\]]|[^,:[\]]+", text.translate(dict.fromkeys(map(ord, blanks))))


class _Tokens:
    """The tokens, where in them the parser is, and the values that all versions read alike."""

    read: Callable[[str], int]  #: a number, as that version reads it

    def __init__(self, text: str, version: Version, settings: CachingSettings, blanks: str) -> None:
        self.tokens = _split(text, blanks)
        self.version, self.settings = version, settings
        self.at = 0

    @property
    def more(self) -> bool:
        return self.at + 1 < len(self.tokens)

    def next(self) -> str:
        """The next token, which must be there."""
        self.at += 1
        return self.here()

    def here(self) -> str:
        _require(self.at < len(self.tokens), f"it ends after {self.tokens[-1]!r}")
        return self.tokens[self.at]

    @contextmanager
    def about(self, key: str) -> Iterator[None]:
        """Errors inside name the key."""
        try:
            yield
        except CoopsimError as e:
            raise CoopsimError(str(e) if key in str(e) else f"{key}: {e}") from None

    def boolean(self) -> bool:
        token = self.here()
        _require(token in ("True", "False"), f"{token!r} is neither True nor False")
        return token == "True"  # noqa: S105

    def number(self) -> int:
        return self.read(self.here())

    def size(self) -> int:
        """Bytes of a limit that is given in MiB."""
        raise NotImplementedError

    def step(self, over: str) -> None:
        """Over a colon or a comma."""
        raise NotImplementedError

    def value(self, key: str) -> None:
        """Read the value of a setting. Raises CoopsimError where that version refuses it."""
        s = self.settings
        match key:
            case "max_split_size_mb":
                s.max_split_size = self.size()
            case "max_non_split_rounding_mb":
                s.max_non_split_rounding = self.size()
            case "garbage_collection_threshold":
                s.garbage_collection_threshold = stod(self.here())
                _require(0 < s.garbage_collection_threshold < 1, f"{stod(self.here()):g} is not between 0 and 1")
            case "roundup_power2_divisions":
                self.divisions()
            case "backend":
                _require(self.here() in ("native", "cudaMallocAsync"), f"unknown backend {self.here()!r}")
                _require(self.here() == "native", "cudaMallocAsync is another allocator, which is not simulated")
            case "expandable_segments":
                s.expandable_segments = self.boolean()
            case "pinned_num_register_threads":
                _require(_is_power_of_two(self.number()), "not a power of two")
                _require(self.number() <= _MOST_REGISTER_THREADS, f"more than {_MOST_REGISTER_THREADS}")
            case _:
                self.boolean()

    def divisions(self) -> None:
        """roundup_power2_divisions: one number, or a list of intervals in MiB with a number each."""
        table = self.settings.divisions
        if self.here() != "[":
            value = self.number()
            _require(_is_power_of_two(value), f"{value} is not a power of two")
            table[:] = [value] * INTERVALS
            return
        first, last = True, 0
        self.at += 1
        while self.at < len(self.tokens) and self.tokens[self.at] != "]":
            interval = self.here()
            self.step(":")
            self.next()
            value = self.number()
            _require(value == 0 or _is_power_of_two(value), f"{value} is neither 0 nor a power of two")
            if interval == ">":
                start = last + self.version.shared_settings
                table[start:] = [value] * (INTERVALS - start)
            else:
                mib = stoull(interval)
                _require(_is_power_of_two(mib), f"the interval {interval} is not a power of two")
                last = min(mib.bit_length() - 1, INTERVALS - 1)
                if first:
                    table[:last] = [value] * last
                    first = False
                table[last] = value
            _require(self.more, "the list has no end")
            if self.tokens[self.at + 1] != "]":
                self.step(",")
            self.at += 1
        _require(self.at < len(self.tokens), "the list has no end")


class _Old(_Tokens):
    """The parser of 2.6 to 2.9."""

    read = staticmethod(stoi)

    def __init__(self, text: str, version: Version, settings: CachingSettings) -> None:
        super().__init__(text, version, settings, " ")

    def step(self, over: str) -> None:
        self.at += 1
        there = self.tokens[self.at] if self.at < len(self.tokens) else "the end"
        _require(there == over, f"{over!r} is missing before {there!r}")

    def parse(self) -> None:
        while self.at < len(self.tokens):
            key = self.here()
            if key not in self.version.keys:
                raise unknown("setting", key, self.version.keys)
            with self.about(key):
                self.step(":")
                self.at += 1
                self.here()
                self.value(key)
            if self.more:
                self.step(",")
            self.at += 1

    def size(self) -> int:
        mib = self.number()
        _require(mib > 20, f"{mib} is not above 20")
        return _bytes(mib)


def _parse_shared(text: str, version: Version, settings: CachingSettings) -> None:
    new = _New(text, version, settings)
    if "large_segment_size_mb" in version.keys:
        new.go({"large_segment_size_mb"})
    settings.max_non_split_rounding = settings.large_segment_size
    new.go(_SHARED - {"large_segment_size_mb"})
    new.go(set(version.keys) - _SHARED)


class _New(_Tokens):
    """The parsers from 2.10 on."""

    read = staticmethod(stoull)

    def __init__(self, text: str, version: Version, settings: CachingSettings) -> None:
        super().__init__(text, version, settings, " \t\n\v\f\r")

    def go(self, mine: set[str]) -> None:
        """Go through the string, read those settings and skip others."""
        self.at = 0
        while self.at < len(self.tokens):
            key = self.here()
            if key not in self.version.keys:
                raise unknown("setting", key, self.version.keys)
            with self.about(key):
                self.at += 2  # over the colon, whatever it is
                self.here()
                if key in mine:
                    self.value(key)
                else:
                    self.skip()
            self.at += 2  # over the comma, whatever it is

    def skip(self) -> None:
        if self.here() == "[":
            while self.at < len(self.tokens) and self.tokens[self.at] != "]":
                self.at += 1
            _require(self.at < len(self.tokens), "the list has no end")

    def step(self, over: str) -> None:  # noqa: ARG002 (whatever it is)
        self.next()

    def value(self, key: str) -> None:
        s = self.settings
        match key:
            case "large_segment_size_mb":
                mib = self.number()
                _require(mib > 10, f"{mib} is not above 10")
                s.large_segment_size = _bytes(mib)
            case "throw_on_cudamalloc_oom":
                s.throw_on_cudamalloc_oom = self.boolean()
            case "per_process_memory_fraction":
                s.memory_fraction = stod(self.here())
                _require(0 <= s.memory_fraction <= 1, f"{s.memory_fraction:g} is not in 0 to 1")
            case "pinned_reserve_segment_size_mb":
                _require(self.number() > 0, "not above 0")
            case "pinned_max_cached_size_mb" | "pinned_max_round_threshold_mb":
                self.number()
            case "expandable_segments_reserve":
                self.reserve()
            case "expandable_segments_reserve_by_class":
                self.classes()
            case _:
                super().value(key)

    def size(self) -> int:
        mib, least = self.number(), self.settings.large_segment_size // MIB
        _require(mib >= least, f"{mib} is below {least}, the large segment size")
        return _bytes(mib)

    def reserve(self) -> None:
        """Address space of an expandable segment: a part of the device, or GiB. A bad value is passed over."""
        token, s = self.here(), self.settings
        found = _RESERVE.fullmatch(token)
        value = float(found.group(1)) if found else 0.0
        if found and value > 0:
            s.reserve = None if found.group(2) else value
            s.reserve_bytes = int(min(value * (1 << 30), 2.0**60)) if found.group(2) else None

    def classes(self) -> None:
        """A list of class:reserve, for memory that is allocated under a class; no request here is."""
        self.at += 1
        while self.at < len(self.tokens) and self.tokens[self.at] != "]":
            self.step(":")
            self.next()
            if self.more and self.tokens[self.at + 1] != "]":
                self.step(",")
            self.at += 1
        _require(self.at < len(self.tokens), "the list has no end")
