"""The residencies of a memory map as a string: JSON, deflated, in base64. page/data.js reads it back."""

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coopsim.figures.residences import Residences

RECOMPUTED, EARLIER, EVICTED = 1, 2, 4  #: bits of `flags`


def pack(steps: "list[Residences]", granule: int) -> str:
    """The residencies of some steps, a list of columns each, by their begin; times in ns, bytes in granules.

    `begin`, `address` and `op` are differences to the row before, which deflate makes small.
    """
    return base64.b64encode(zlib.compress(_json([_columns(r, granule) for r in steps]), 9)).decode()


def _columns(r: "Residences", granule: int) -> dict[str, list[int]]:
    rows = np.lexsort((r.address, r.begin_ns))
    flags = RECOMPUTED * r.recomputed + EARLIER * r.earlier + EVICTED * r.evicted
    columns = {
        "begin": _differences(r.begin_ns[rows]),
        "length": (r.end_ns - r.begin_ns)[rows],
        "address": _differences(r.address[rows] // granule),
        "bytes": r.bytes[rows] // granule,
        "storage": r.storage[rows],
        "op": _differences(r.op[rows]),
        "flags": flags[rows],
    }
    return {name: column.tolist() for name, column in columns.items()}


def _differences(column: "NDArray[np.int64]") -> "NDArray[np.int64]":
    return np.diff(column, prepend=0)


def _json(what: Any) -> bytes:
    return json.dumps(what, separators=(",", ":")).encode()
