"""Describe the ops of traces with measured costs as they are priced: their shapes are not in a trace.

Each model is recorded again, on the phantom GPU, and its ops are matched with the trace's by order.
Usage: python -m experiments.gpu.calls FOLDER. Reads the trace-*.parquet in it and writes calls.csv.
"""

import csv
import dataclasses
import difflib
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from coopsim import phantom, trace
from coopsim.base.files import replacing
from coopsim.calibrate.grid_calls import Timed
from coopsim.cards.prices import Call

CARD = "h100-80gb"
_FIELDS = [field.name for field in dataclasses.fields(Call)]


def read(path: Path) -> list[Timed]:
    """The calls of calls.csv."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [Timed(_call(row), float(row["ns"]), row["model"], int(row["count"])) for row in rows]


def _call(row: dict[str, str]) -> Call:
    kinds = {field.name: type(field.default) for field in dataclasses.fields(Call)}
    kinds["touched"], kinds["last"], kinds["odd"] = int, _flag, _flag  # type: ignore[assignment]
    return Call(**{name: kinds[name](row[name]) for name in _FIELDS if row[name]})


def _flag(text: str) -> bool:
    return text == "True"


def described(folder: Path, model: str) -> list[dict[str, Any]]:
    """Rows of a model: its calls, how often each occurs, and the median of its times in ns."""
    measured = trace.load(folder / f"trace-{model}.parquet")
    environment = os.environ | phantom.environment(CARD) | phantom.compiler_caches() | {"PYTHONHASHSEED": "0"}
    words = measured.header["command"].split()
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "experiments.gpu.calls", "--record", *words[2:]],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    ops = json.loads(done.stdout.splitlines()[-1])
    same = difflib.SequenceMatcher(None, list(measured.name), [name for name, _ in ops], autojunk=False)
    times: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, j, n in same.get_matching_blocks():
        for k in range(n):
            name, call = ops[j + k]
            times[name, json.dumps(call)].append(int(measured.cost_ns[i + k]))
    rows = []
    for (name, call), each in times.items():
        found = {"model": model, "op": name, "count": len(each), "ns": round(statistics.median(each))}
        rows.append(found | json.loads(call))
    return rows


def _record(words: list[str]) -> None:
    """In a process on the phantom: print the calls of a step as JSON."""
    import torch

    from coopsim.record.capture import Job, session
    from coopsim.record.observe.costs import OpCostModel

    options = dict(zip(words[1::2], words[2::2], strict=True))
    ops: list[tuple[str, dict[str, Any]]] = []

    class Noted(OpCostModel):
        def nanoseconds(self, name: str, call: Call) -> int:
            ops.append((name, dataclasses.asdict(call)))
            return super().nanoseconds(name, call)

    session.OpCostModel = Noted  # type: ignore[misc]
    optimizer: Any = options.get("--optimizer")
    job = Job(words[0], os.devnull, card=CARD, optimizer=optimizer, steps=int(options.get("--steps", 1)))
    session.trace = Silent()  # type: ignore[assignment]
    session.record(job, lambda text: ops.clear() if text.startswith("recording step 1 ") else None)
    assert torch.cuda.is_available()
    print(json.dumps(ops), flush=True)
    os._exit(0)


class Silent:
    """In place of coopsim.trace: writes nothing."""

    @staticmethod
    def save(*_: Any) -> None:
        """Write nothing."""


def main(folder: Path) -> None:
    """Describe all models of a folder."""
    models = sorted(path.stem.removeprefix("trace-") for path in folder.glob("trace-*.parquet"))
    rows = [row for model in models for row in described(folder, model)]
    with replacing(folder / "calls.csv") as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["model", "op", "count", "ns", *_FIELDS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        _record(sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
