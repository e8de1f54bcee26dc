"""Training inside a budget on a card: what `live` and remedies of `fit` took, beside plain runs and the phantom.

A case is a run of a program (stage_live.py). Its first word names the program, and the case of that program that is
called plain is what the others are compared with.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from experiments.gpu import names
from experiments.gpu.markdown import table

_MIB = 2**20
_LAST = 4  #: steps that are steady

Case = dict[str, Any]


def load(folder: Path) -> list[Case]:
    """The cases of a folder: of live.json, which has many, and of live-CASE.json, one each with the phantom's."""
    found: list[Case] = []
    if (folder / names.LIVE).exists():
        found += json.loads((folder / names.LIVE).read_text())
    for path in sorted(folder.glob(names.live("*"))):
        case = json.loads(path.read_text())
        phantom = folder / names.live_phantom(path.stem.removeprefix("live-"))
        if not path.stem.endswith("-phantom"):
            case["phantom_max_reserved"] = json.loads(phantom.read_text())["max_reserved"] if phantom.exists() else None
            found.append(case)
    return found


def section(cases: list[Case]) -> list[str]:
    """A row per run that finished: bytes reserved, bits, and time predicted and measured; then those that did not."""
    if not cases:
        return ["Not measured."]
    rows, failed = [], []
    for case in cases:
        if not case["step_ms"] or case["failed"] or case["exit"] != 0:
            failed.append(f"{case['name']} ({_why(case)})")
            continue
        plain = plain_of(case, cases)
        rows.append((case["name"], *_bytes(case), _bits(case, plain), *_time(case, plain)))
    head = ("run", "reserved, MiB", "as on the phantom", "bits of the plain run", "step, ms: fastest / median")
    lines = table((*head, "predicted", "measured: fastest / median"), rows)
    if failed:
        lines += ["", f"Of the last {_LAST} steps. Did not finish: {'; '.join(failed)}."]
    return lines


def brief(cases: list[Case]) -> list[str]:
    """A row per finished run of live: predicted and measured overhead."""
    rows = []
    for case in cases:
        if case["step_ms"] and not case["failed"] and (case["report"] or {}).get("predicted_overhead"):
            _, predicted, measured = _time(case, plain_of(case, cases))
            rows.append((case["name"], *_bytes(case), _bits(case, plain_of(case, cases)), predicted, measured))
    head = ("run", "reserved, MiB", "as on the phantom GPU", "bits of the plain run", "predicted")
    return table((*head, "measured: fastest / median step"), rows) if rows else ["Not measured."]


def plain_of(case: Case, cases: list[Case]) -> Case | None:
    """The first finished plain run of the same program."""
    word = case["name"].split()[0]
    same = (c for c in cases if c["name"].split()[0] == word and "plain" in c["name"])
    return next((c for c in same if c["step_ms"] and not c["failed"]), None)


def steady(case: Case) -> tuple[float, float]:
    """The fastest and the median of the last steps, ms."""
    last = case["step_ms"][-_LAST:]
    return min(last), statistics.median(last)


def _bytes(case: Case) -> tuple[str, str]:
    on_card, phantom = case["max_reserved"], case["phantom_max_reserved"]
    return f"{on_card / _MIB:.0f}", "-" if phantom is None else "yes" if phantom == on_card else f"{phantom / _MIB:.0f}"


def _bits(case: Case, plain: Case | None) -> str:
    if plain is None or case is plain:
        return "-"
    return "same" if case["bits"] == plain["bits"] else "others"


def _time(case: Case, plain: Case | None) -> tuple[str, str, str]:
    mine, report = steady(case), case["report"] or {}
    predicted = report.get("predicted_overhead")
    said = "-" if predicted is None else f"{100 * (predicted - 1):+.1f} %"
    took = " / ".join(f"{ms:.1f}" for ms in mine)
    if plain is None or case is plain:
        return took, said, "-"
    base = steady(plain)[1]
    return took, said, " / ".join(f"{100 * (ms / base - 1) + 0.0:+.1f} %" for ms in mine)


def _why(case: Case) -> str:
    if case["exit"] == "timeout":
        return "ended for time"
    if case["failed"]:
        return str(case["failed"]).partition(". ")[0][:160]
    said = [line.strip() for line in case["said"].splitlines() if line.startswith("coopsim: ")]
    return said[-1].removeprefix("coopsim: ")[:160] if said else f"exit code {case['exit']}"
