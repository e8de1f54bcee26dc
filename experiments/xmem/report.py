"""What the comparison says: errors of peaks, and capped runs called right."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import models
from records import Record

MIB = 2**20
#: A cap of this share of the measured peak is near it: elsewhere, any estimator is right.
NEAR = (0.75, 1.10)
PHANTOM = "phantom, peak reserved"
OOM = "oom"


def family(record: Record) -> str:
    return "CNNs" if models.find(record.model).kind == models.IMAGES else "transformers"


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors in percent, of one estimator over some records."""

    of: str
    records: str
    percent: tuple[float, ...]

    def row(self) -> dict[str, Any]:
        within = {f"within {limit} %": sum(p <= limit for p in self.percent) for limit in (1, 2, 5)}
        return {
            "estimator": self.of,
            "records": self.records,
            "n": len(self.percent),
            "median %": round(statistics.median(self.percent), 2),
            "mean %": round(statistics.fmean(self.percent), 2),
            "max %": round(max(self.percent), 1),
            **within,
        }


def peak_rows(results: Sequence[tuple[Record, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each record, in MiB; the error is that of peak reserved against what was measured."""
    rows = []
    for record, result in results:
        row: dict[str, Any] = {
            "model": record.model,
            "optimizer": record.optimizer,
            "batch": record.batch,
            "card": record.card,
            "measured": "out of memory" if record.out_of_memory else round(record.measured_bytes / MIB, 1),
        }
        if "error" in result:
            row |= {"reserved": f"failed: {result['error']}", "error %": None}
        elif result["outcome"] == OOM:
            row |= {"reserved": "out of memory", "error %": None}
        else:
            error = None if record.out_of_memory else _error(result["peak_reserved_bytes"], record)
            row |= {"reserved": result["peak_reserved_bytes"] / MIB, "error %": error}
        row["allocated"] = _mib(result.get("peak_allocated_bytes"))
        if result.get("smallest_memory_bytes") is not None:
            row["smallest card"] = _mib(result["smallest_memory_bytes"])
        row["retries"] = result.get("retries")
        rows.append(row)
    return rows


def cap_rows(results: Sequence[tuple[Record, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each capped run: what it really did, what it does on the phantom."""
    said = {True: "out of memory", False: "trains"}
    rows = []
    for record, result in results:
        found = "failed: " + result["error"] if "error" in result else said[result["outcome"] == OOM]
        rows.append(
            {
                "model": record.model,
                "optimizer": record.optimizer,
                "batch": record.batch,
                "card": record.card,
                "cap": record.limit_mib and round(record.limit_mib, 1),
                "cap / measured": round((record.limit_mib or 0) * MIB / record.measured_bytes, 3),
                "really": said[record.out_of_memory],
                "phantom": found,
                "right": found == said[record.out_of_memory],
            }
        )
    return rows


def errors(results: Sequence[tuple[Record, dict[str, Any]]]) -> list[Errors]:
    """Of the phantom and of each estimator that the file has predictions of, over all records that trained."""
    trained = [(r, x) for r, x in results if not r.out_of_memory and x.get("outcome") == "ok"]
    names = sorted({name for r, _ in trained for name in r.predictions})
    estimators: dict[str, Callable[[Record, dict[str, Any]], int | None]] = {
        PHANTOM: lambda _, x: x["peak_reserved_bytes"],
        "phantom, peak allocated": lambda _, x: x["peak_allocated_bytes"],
    } | {name: (lambda r, _, name=name: r.predictions.get(name)) for name in names}
    found = []
    for group in ("all", "transformers", "CNNs"):
        for name, estimate in estimators.items():
            values = [(estimate(r, x), r) for r, x in trained if group in ("all", family(r))]
            percent = tuple(abs(_error(v, r)) for v, r in values if v is not None)
            if percent:
                found.append(Errors(name, group, percent))
    return found


def judged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many capped runs were called right, and how many of those near the measured peak."""
    near = [r for r in rows if NEAR[0] <= r["cap / measured"] <= NEAR[1]]
    return {
        "capped runs": len(rows),
        "right": sum(r["right"] for r in rows),
        "near the peak": len(near),
        "right near the peak": sum(r["right"] for r in near),
    }


def _mib(nbytes: int | None) -> float | None:
    return None if nbytes is None else round(nbytes / MIB, 1)


def _error(estimate: int, record: Record) -> float:
    return round(100 * (estimate / record.measured_bytes - 1), 2)
