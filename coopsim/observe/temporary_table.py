"""A table of the temporaries that ops allocate on a real GPU, for devices on which kernels do not run."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coopsim.observe.errors import CaptureError

_Key = tuple[str, int, int, tuple[int, ...]]  #: op, flops, bytes_moved, bytes of what it creates
_COLUMNS = ("op", "flops", "bytes_moved", "creates", "gpu", "requests", "count")


@dataclass(frozen=True)
class Temporaries:
    """The temporaries of one op: the bytes of each, and its requests as in the trace's column (docs/formats.md)."""

    nbytes: list[int]
    requests: list[int]


class TemporaryTable:
    """The table in a file of experiments/gpu (temporaries.json). `uses` counts the calls that were found in it.

    The key of an op is its name, FLOPs, bytes moved and the bytes of what it creates. Of several rows with one key, the
    one that was seen most often is used, the first of equals.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.uses = path.name, 0
        self._rows = read(path)

    def of(self, op: str, flops: int, bytes_moved: int, creates: Iterable[int]) -> Temporaries | None:
        """Return the temporaries of an op that creates storages of these bytes; None if the table has no such op."""
        found = self._rows.get((op, flops, bytes_moved, tuple(creates)))
        self.uses += found is not None
        return found


def read(path: Path) -> dict[_Key, Temporaries]:
    """Return the temporaries in a table, by (op, FLOPs, bytes moved, bytes of each storage that it creates).

    Raises CaptureError if the file is missing or is no such table.
    """
    if not path.is_file():
        raise CaptureError(f"{path}: no such file")
    try:
        models: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))["content"]
        counts: dict[_Key, dict[tuple[tuple[int, ...], tuple[int, ...]], int]] = defaultdict(lambda: defaultdict(int))
        for rows in models.values():
            for row in rows:
                op, flops, moved, creates, nbytes, requests, count = (row[column] for column in _COLUMNS)
                key = str(op), int(flops), int(moved), tuple(map(int, creates))
                counts[key][tuple(map(int, nbytes)), tuple(map(int, requests))] += int(count)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CaptureError(f"{path}: no table of temporaries, as experiments/gpu/report.py writes them") from None
    most = {key: max(kinds, key=lambda kind: kinds[kind]) for key, kinds in counts.items()}
    return {key: Temporaries(list(nbytes), list(requests)) for key, (nbytes, requests) in most.items()}
