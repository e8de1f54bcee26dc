"""Infer which versions of PyTorch can have written a snapshot from its fields; the file has no version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Minor = tuple[int, int]

#: The first version that writes a field, by (place, name): in the file, a segment, an event, or the settings. Found
#: among the strings of libtorch_python.so in the wheels of each version from 2.0 to 2.14 (`pool_id` in the
#: documentation of `_snapshot` in them, as another string hides it).
_SINCE: Mapping[tuple[str, str], Minor] = {
    ("segment", "is_expandable"): (2, 1),
    ("event", "time_us"): (2, 2),
    ("file", "allocator_settings"): (2, 3),
    ("file", "external_annotations"): (2, 5),
    ("event", "compile_context"): (2, 8),
    ("settings", "graph_capture_record_stream_reuse"): (2, 9),
    ("event", "user_metadata"): (2, 10),
    ("event", "pool_id"): (2, 12),
}


@dataclass(frozen=True)
class Written:
    """The earliest and the latest minor version that can have written a file, such as 2.5; None: no bound is known.

    known: False if no version writes these fields together, as in a file of another program.
    """

    earliest: str | None = None
    latest: str | None = None
    known: bool = True

    def text(self) -> str:
        """Return the range of versions as text."""
        if not self.known:
            return "fields that no one version of torch writes together"
        if self.earliest is None and self.latest is None:
            return "fields of any version of torch"
        if self.earliest == self.latest:
            return f"fields of torch {self.latest}"
        if self.earliest is None or self.latest is None:
            return f"fields of torch {self.earliest or self.latest} or {'newer' if self.earliest else 'older'}"
        return f"fields of torch {self.earliest} to {self.latest}"


UNKNOWN = Written()


def written_by(found: Mapping[str, Any], events: Sequence[Any]) -> Written:
    """Infer the versions from the fields of a snapshot's dictionary and of a device's events, if there are any."""
    places = {"file": [found], "segment": found["segments"], "event": events}
    places["settings"] = [found["allocator_settings"]] if found.get("allocator_settings") else []
    earliest: Minor | None = None
    latest: Minor | None = None
    for (where, name), since in sorted(_SINCE.items(), key=lambda item: item[1]):
        parts = places[where]
        if any(name in part for part in parts):
            earliest = since
        elif parts and latest is None:
            latest = since[0], since[1] - 1
    if earliest is not None and latest is not None and latest < earliest:
        return Written(known=False)
    return Written(_name(earliest), _name(latest))


def _name(minor: Minor | None) -> str | None:
    return f"{minor[0]}.{minor[1]}" if minor else None
