"""The tables of docs/gpu.md, out of what report.py has derived."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from experiments.gpu import compare, names, roofline

_GIB, _MIB = 2**30, 2**20


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def section(found: dict[str, Any], folder: str, drawn: Sequence[str], models: Sequence[str]) -> str:
    """All of it; what was not measured is named, without a table."""
    parts = [about(found["machine"], folder)]
    parts += traces(found["traces"], models)
    parts += costs(found["costs"], drawn)
    parts += allocator(found["allocator"])
    parts += execution(found["execution"], drawn)
    return "\n".join(parts)


def about(machine: dict[str, Any], folder: str) -> str:
    smi = machine.get("nvidia_smi", {})
    clocks = f", clocks {smi['clocks.sm']} / {smi['clocks.mem']} MHz at the start" if smi else ""
    kind = "**A rehearsal on the phantom GPU: no number here is evidence.** " if machine["phantom"] else ""
    return (
        f"\n{kind}Results `{folder}`: {machine['gpu']}, driver {machine['driver'] or 'unknown'}, torch "
        f"{machine['versions']['torch']}, CUDA {machine['cuda']}, cuDNN {machine['cudnn']}, "
        f"{machine['date']}{clocks}.\n"
    )


def traces(found: dict[str, Any], models: Sequence[str]) -> list[str]:
    """Ops that agree and differ, by model; then what kinds of differences there are."""
    lines = ["### Traces", ""]
    if missing := [m for m in models if m not in found]:
        lines += [f"Not recorded: {', '.join(missing)}.", ""]
    if not found:
        return lines
    rows = []
    for model, c in found.items():
        s = c["summary"]
        peaks = s["peak_reserved_bytes"]
        peak = " / ".join("?" if p is None else f"{p / _GIB:.3f}" for p in peaks)
        ops = f"{s['gpu_ops']} / {s['phantom_ops']} / {s['both']}"
        rows.append((model, c["phantom"], ops, *(s.get(a, 0) for a in compare.ASPECTS), peak))
    lines += ["Ops on the GPU / on the phantom / in both, and how many of both differ in what:", ""]
    lines += table(("model", "phantom", "ops", *compare.ASPECTS, "peak reserved, GiB"), rows)
    kinds = Counter((d["what"], d["op"]) for c in found.values() for d in c["differences"])
    if kinds:
        lines += ["", "The most frequent differences:", ""]
        lines += table(("what", "op", "times"), ((what, f"`{op}`", n) for (what, op), n in kinds.most_common(20)))
    return [*lines, ""]


def costs(found: dict[str, Any], drawn: Sequence[str]) -> list[str]:
    """Errors by model, and by class on the models that were not fitted; the efficiencies."""
    lines = ["### Costs", ""]
    if not found:
        return [*lines, "Not measured, or the card has no profile.", ""]
    every = [r for r in found["errors"] if r["class"] == "all"]
    rows = [
        (r["model"], r["role"], f"{r['measured_ms']:.2f}", _error(r, "roofline_ms"), _error(r, "fitted_ms"))
        for r in every
    ]
    head = ("model", "for", "measured, ms", "roofline, error %", "fitted, error %")
    lines += [*table(head, rows), "", "By class of op, over the models that the fit has not seen:", ""]
    rows = []
    for kind in (*roofline.CLASSES, roofline.REST):
        part = [r for r in found["errors"] if r["class"] == kind and r["role"] == "test"]
        total = {k: sum(r[k] for r in part) for k in ("ops", "measured_ms", "roofline_ms", "fitted_ms")}
        if total["ops"]:
            share = f"{found['efficiency'][kind]:.2f}" if kind in found["efficiency"] else "-"
            errors = _error(total, "roofline_ms"), _error(total, "fitted_ms")
            rows.append((kind, total["ops"], f"{total['measured_ms']:.2f}", share, *errors))
    head = ("class", "ops", "measured, ms", "fitted part of the peak", "roofline, error %", "fitted, error %")
    lines += table(head, rows)
    lines += ["", f"Fitted on {', '.join(found['fit_on']) or 'nothing'}; an op takes at least {found['launch_ns']} ns."]
    if "gpu-costs.png" in drawn:
        lines += [
            "",
            "![Time by model and class of op: measured, roofline and fit](images/gpu-costs.png)",
            "",
            "A point is a class of ops in a model; filled: a model that the fit has not seen.",
        ]
    return [*lines, ""]


def allocator(found: dict[str, Any]) -> list[str]:
    """GPU / simulated everywhere."""
    lines = ["### The caching allocator", ""]
    if found["steps"]:
        rows = [(m, *(f"{b / _MIB:.0f}" for b in pair)) for m, pair in found["steps"].items()]
        lines += ["Peak reserved in the recorded steps, MiB:", "", *table(("model", "GPU", "simulated"), rows), ""]
    if found["runs"]:
        rows = []
        for r in found["runs"]:
            peak, used = r["peak_reserved_bytes"], r["peak_allocated_bytes"]
            parts = [f"{100 * (1 - u / p):.2f}" for u, p in zip(used, peak, strict=True)]
            cells = [_pair(r[k]) for k in ("peak_reserved_bytes", "peak_allocated_bytes", "smallest_bytes")]
            place = f"{r['same_place']} of {r['allocations']}"
            rows.append((r["model"], place, cells[0], cells[1], " / ".join(parts), cells[2], r["confirmed"]))
        lines += ["A whole run from an empty cache, two steps; GPU / simulated, MiB:", ""]
        head = ("model", "same segment and offset", "peak reserved", "peak allocated", "fragmentation, %")
        lines += table((*head, "least memory", "trains there, not 2 MiB below"), rows)
    else:
        lines.append("No run was bisected.")
    lines.append("")
    if found["requests"]:
        rows = [
            (m, p, f"{r['percent']} %", f"{r['equal']} of {r['requests']}", r["agrees"])
            for m, one in found["requests"].items()
            for p, r in one["policies"].items()
        ]
        lines += ["Requests of schedules on the caching allocator, performed on the GPU under the same limit:", ""]
        lines += table(("model", "policy", "budget", "answered alike", "all statistics equal"), rows)
    else:
        lines.append("No schedule's requests were performed.")
    return [*lines, ""]


def execution(found: dict[tuple[str, str], Any], drawn: Sequence[str]) -> list[str]:
    """Predicted and measured overhead and peaks."""
    lines = ["### Schedules executed", ""]
    rows = []
    for model in names.MAIN:
        plain = found.get((model, names.PLAIN))
        for policy in names.POLICIES:
            run = found.get((model, policy))
            if run is None or plain is None:
                lines += [f"Not executed: {model}, {policy}.", ""]
                continue
            s, over = run["schedule"], overheads(run, plain)
            same = run["after_first_round"]
            peak, outside = run["arena_peak_bytes"], run["outside_peak_bytes"]
            memory = peak, peak + outside, run["largest_result_bytes"]
            rows.append(
                (
                    model,
                    policy,
                    f"{s['percent']} %",
                    s["recomputes"],
                    f"{100 * (s['overhead'] - 1):.1f}",
                    *(f"{100 * (x - 1):.1f}" for x in over),
                    " / ".join(f"{b / _MIB:.0f}" for b in memory),
                    f"{same['identical']} of {same['found']} ({same['largest_difference']:.2g})",
                )
            )
    if rows:
        head = ("model", "policy", "budget", "recomputed", "overhead predicted, %", "ops", "with copies", "wall clock")
        lines += table((*head, "peak predicted / measured / largest result, MiB", "identical after a step"), rows)
    if "gpu-overhead.png" in drawn:
        lines += ["", "![Overhead predicted and measured, by model and policy](images/gpu-overhead.png)"]
    return [*lines, ""]


def overheads(run: dict[str, Any], plain: dict[str, Any]) -> tuple[float, float, float]:
    """Of a run against the one without eviction: ops alone, with copies, and by the wall clock."""

    def ratio(a: float, b: float) -> float:
        return a / b if b else 1.0

    ops = [r["totals_ns"]["op_ns"] for r in (run, plain)]
    every = [sum(r["totals_ns"].values()) for r in (run, plain)]
    return ratio(*ops), ratio(*every), ratio(run["wall_median_ns"], plain["wall_median_ns"])


def _pair(pair: Sequence[int]) -> str:
    return " / ".join(f"{b / _MIB:.0f}" for b in pair)


def _error(row: dict[str, float], key: str) -> str:
    return f"{100 * (row[key] / row['measured_ms'] - 1):+.0f}" if row["measured_ms"] else "-"
