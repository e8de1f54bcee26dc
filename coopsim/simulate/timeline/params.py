"""The prices and the shape of the simulation in time: data, each with its source (params.toml)."""

import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.trace.schedule import Schedule


@dataclass(frozen=True)
class Params:
    """`load_params` has the defaults and their sources. CoopsimError if a value is out of range.

    Host, in ns: dispatch_ns per op or copy; alloc_ns per allocation; free_ns per free or release; search_ns_per_visit
    per block that a search looks at and evict_ns per eviction, which together are the search; segment_alloc_ns and
    segment_free_ns per segment that the caching allocator takes from the device or gives back, segment_refuse_ns for
    one that it does not get. queue_capacity: launched ops of a stream that may wait for it; sync_steps: whether the
    host waits for the GPU after each step. Copies: copy_inputs, whether each step's inputs come from the host;
    copy_on_write, whether a new version of a storage at a new place starts as a copy of the old one; copy_stream,
    whether copies have a stream of their own; and at how many GB (10^9 bytes) a second they go.
    """

    dispatch_ns: int
    alloc_ns: int
    free_ns: int
    search_ns_per_visit: float
    evict_ns: int
    queue_capacity: int
    sync_steps: bool = False
    segment_alloc_ns: int = 0
    segment_free_ns: int = 0
    segment_refuse_ns: int = 0
    copy_inputs: bool = False
    copy_on_write: bool = False
    copy_stream: bool = False
    host_to_device_gb_s: float = 25
    device_to_device_gb_s: float = 680

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            kinds, word = _KINDS.get(name, ((int,), "an integer"))
            if type(value) not in kinds:
                raise CoopsimError(f"timeline parameter {name}: {value!r} is not {word}")
            least = 1 if name == "queue_capacity" else 0
            if not least <= value < float("inf"):
                raise CoopsimError(f"timeline parameter {name} must be at least {least} and finite, not {value}")
            if name in _RATES and value == 0:
                raise CoopsimError(f"timeline parameter {name} must be more than 0")


_NUMBER, _SWITCH = ((int, float), "a number"), ((bool,), "true or false")
_RATES = ("host_to_device_gb_s", "device_to_device_gb_s")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "search_ns_per_visit": _NUMBER,
    **dict.fromkeys(_RATES, _NUMBER),
    **dict.fromkeys(("sync_steps", "copy_inputs", "copy_on_write", "copy_stream"), _SWITCH),
}


@cache
def _shipped() -> dict[str, Any]:
    text = (Path(__file__).parent / "params.toml").read_text(encoding="utf-8")
    return {name: entry["value"] for name, entry in tomllib.loads(text).items()}


def load_params(path: str | Path | None = None) -> Params:
    """The shipped parameters, those in the TOML file at `path` in their place. CoopsimError if that is no such file."""
    try:
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as e:
        raise CoopsimError(f"{path}: not a file of timeline parameters ({e})") from None
    for name, entry in entries.items():
        if name not in _shipped():
            raise unknown("timeline parameter", name, _shipped(), hint=f" (in {path})")
        if not isinstance(entry, dict) or "value" not in entry:
            raise CoopsimError(f"{path}: timeline parameter {name} needs a table with `value` and `source`")
    return Params(**(_shipped() | {name: entry["value"] for name, entry in entries.items()}))


def measured(schedule: Schedule, params: Params) -> Params:
    """`params` with the search at the price that this replay measured: wall ns / visits, evictions included.

    Unchanged if nothing was searched or measured.
    """
    search_ns, visits = schedule.header.get("search_ns"), schedule.header.get("search_visits")
    return replace(params, search_ns_per_visit=search_ns / visits, evict_ns=0) if search_ns and visits else params
