"""Executed schedules beside their predictions: overheads, peaks, and whether what is left is right bit by bit."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from experiments.gpu import names
from experiments.gpu.markdown import table

Runs = dict[tuple[str, str], Any]  #: by model and policy, what execution-M-P.json holds

#: What overheads are given by: the schedule, the ops alone, with copies, wall-clock time.
BARS = ("predicted", "ops", "with copies", "wall clock")
_MIB = 2**20
_HOST_BOUND = 1.1  #: times the GPU's work: from there on the wall-clock time of a plain step is the host's


def section(found: Runs, bits: dict[str, Any], drawn: Sequence[str]) -> list[str]:
    """Predicted and measured overhead, first step / last step; peaks; and whether what is left is right.

    bits: by model, what bits-M.json holds: the same under deterministic algorithms.
    """
    lines = ["### Schedules executed", ""]
    rows, states = [], []
    for model in names.MAIN:
        plain = found.get((model, names.PLAIN))
        for policy in (names.PLAIN, *names.POLICIES):
            run = found.get((model, policy))
            if run is None or plain is None:
                lines += [f"Not executed: {model}, {policy}.", ""]
                continue
            states.append((model, policy, *_states(run)))
            if policy != names.PLAIN:
                rows.append((model, policy, *_row(run, plain)))
    if rows:
        lines += ["Overhead in %, first step / last step:", ""]
        head = ("model", "policy", "budget", "recomputed", *BARS)
        lines += table((*head, "peak predicted / measured / largest result, MiB"), rows)
        lines += ["", *_of_the_host(found)]
    head = ("model", "policy", "after the first step, as the program", "after the last, as without eviction")
    if states:
        lines += ["Storages that a step hands to the next, and are bit by bit what they should be"]
        lines += ["(largest relative difference of the others):", "", *table(head, states), ""]
        lines += [
            "Where the schedule without eviction (`plain`) differs from itself, run again, PyTorch's kernels sum in no",
            "constant order, and nothing follows about the other rows.",
            "",
        ]
    if states and not bits:
        lines += ["Not compared with deterministic algorithms.", ""]
    if bits:
        same = [(m, p, *_states(one)) for m, b in bits.items() for p, one in b["policies"].items()]
        lines += ["The same with deterministic algorithms:", "", *table(head, same), ""]
    if "gpu-overhead.png" in drawn:
        lines += ["![Overhead predicted and measured, by model and policy](images/gpu-overhead.png)", ""]
        lines += ["Of the last step.", ""]
    return lines


def brief(found: Runs) -> list[str]:
    """A row per model and policy: predicted overhead, that of the ops, and that of all the GPU's work; last step."""
    rows = []
    for model in names.MAIN:
        cells = []
        for policy in names.POLICIES:
            if (model, policy) not in found or (model, names.PLAIN) not in found:
                cells.append("-")
                continue
            last = overheads(found[model, policy], found[model, names.PLAIN])[-1]
            cells.append(" / ".join(f"{100 * (last[bar] - 1):.1f}" for bar in ("predicted", "ops")))
        rows.append((model, *cells))
    return table(("overhead in %, predicted / measured", *names.POLICIES), rows)


def at_ratios(found: dict[tuple[str, str, float], Any], plain: dict[str, Any]) -> list[str]:
    """Predicted and measured overhead of the last step in other parts of the peak; [] if none was executed."""
    rows = []
    for (model, policy, ratio), run in found.items():
        if model in plain:
            last = overheads(run, plain[model])[-1]
            cells = [f"{100 * (last[bar] - 1):.1f}" for bar in BARS[:3]]
            rows.append((model, policy, f"{100 * ratio:.0f} %", f"{run['schedule']['percent']} %", *cells))
    if not rows:
        return ["Not executed at other budgets.", ""]
    head = ("model", "policy", "asked", "the next that fits", *BARS[:3])
    return ["At other budgets, overhead of the last step in %:", "", *table(head, rows), ""]


def overheads(run: dict[str, Any], plain: dict[str, Any]) -> list[dict[str, float]]:
    """By step, each of BARS: of a run against the one without eviction."""
    predicted = run["schedule"]["steps"]
    measured = [times(r) for r in (run, plain)]
    found = []
    for k, base in enumerate(predicted["base_ns"]):
        values = [(predicted["total_ns"][k], base)]
        values += [(mine[k], theirs[k]) for mine, theirs in zip(*measured, strict=True)]
        found.append({bar: a / b if b else 1.0 for bar, (a, b) in zip(BARS, values, strict=True)})
    return found


def times(run: dict[str, Any]) -> list[list[float]]:
    """By step the ns of the ops, of the ops and the copies, and of wall-clock time."""
    bounds = [*run["step_starts"], len(run["ops"])]
    parts = [run[key] for key in ("op_ns", "prepare_ns", "place_ns")]
    spans = list(itertools.pairwise(bounds))
    ops = [sum(parts[0][a:b]) for a, b in spans]
    every = [sum(sum(part[a:b]) for part in parts) for a, b in spans]
    return [ops, every, [statistics.median(times) for times in zip(*run["wall_ns"], strict=True)]]


def host_bound(plain: dict[str, Any]) -> bool:
    """Does a step without eviction wait for the host, so that its wall-clock time says nothing of the GPU?"""
    _, gpu, wall = times(plain)
    return wall[-1] > _HOST_BOUND * gpu[-1]


def _of_the_host(found: Runs) -> list[str]:
    """Models whose wall-clock time is the host's, said with the times."""
    lines = []
    for model in names.MAIN:
        plain = found.get((model, names.PLAIN))
        if plain is not None and host_bound(plain):
            _, gpu, wall = times(plain)
            spent = f"{wall[-1] / 1e6:.0f} ms, of which the GPU works {gpu[-1] / 1e6:.0f}"
            lines += [
                f"The host decides the wall-clock time of {model}: without eviction it is {spent}. So it",
                "says nothing of the overhead; *with copies* is the GPU's own time.",
                "",
            ]
    return lines


def _row(run: dict[str, Any], plain: dict[str, Any]) -> list[object]:
    by_step, peak, hidden = overheads(run, plain), run["arena_peak_bytes"], host_bound(plain)
    memory = peak, peak + run["outside_peak_bytes"], run["largest_result_bytes"]
    cells = [
        "the host's" if bar == BARS[-1] and hidden else " / ".join(f"{100 * (step[bar] - 1):.1f}" for step in by_step)
        for bar in BARS
    ]
    schedule = run["schedule"]
    return [f"{schedule['percent']} %", schedule["recomputes"], *cells, " / ".join(f"{b / _MIB:.0f}" for b in memory)]


def _states(run: dict[str, Any]) -> list[str]:
    return [_state(run[key]) for key in ("after_first_step", "after_last_step")]


def _state(end: dict[str, Any]) -> str:
    text = f"{end['identical']} of {end['storages']}"
    if end["identical"] < end["found"]:
        text += f" ({end['largest_relative']:.1e})"
    if end["found"] < end["storages"]:
        text += f", {end['storages'] - end['found']} not there"
    return text + (f", {end['not_numbers']} with NaN or infinities" if end["not_numbers"] else "")
