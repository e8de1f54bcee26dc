"""The tables of a report, out of what report.py has derived."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from experiments.gpu import compare, executed, explain, roofline
from experiments.gpu.markdown import table

_GIB, _MIB = 2**30, 2**20


def section(found: dict[str, Any], folder: str, drawn: Sequence[str], models: Sequence[str]) -> str:
    """All of it; what was not measured is named, without a table."""
    parts = [about(found["machine"], folder)]
    parts += traces(found["traces"], models)
    parts += costs(found["costs"], drawn)
    parts += allocator(found["allocator"])
    parts += executed.section(found["execution"], found["bits"], drawn)
    parts += executed.at_ratios(found["ratios"], found["plain"])
    parts += spent(found["spent"], models)
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
    lines += ["", *causes(found)]
    return [*lines, ""]


def causes(found: dict[str, Any]) -> list[str]:
    """What the differences come from, by model; and the most frequent ones that nothing explains."""
    there = [cause for cause in explain.CAUSES if any(c["causes"].get(cause) for c in found.values())]
    if not there:
        return ["No op differs."]
    lines = ["Every difference and where it comes from (each is listed in `comparison.json`, with its cause):", ""]
    rows = [(cause, *(c["causes"].get(cause, 0) for c in found.values()), explain.CAUSES[cause]) for cause in there]
    lines += table(("cause", *found, "which means"), rows)
    kinds = Counter(
        (d["what"], d["op"]) for c in found.values() for d in c["differences"] if d["cause"] == explain.NOT_EXPLAINED
    )
    if kinds:
        lines += ["", "The most frequent differences that are not explained:", ""]
        lines += table(("what", "op", "times"), ((what, f"`{op}`", n) for (what, op), n in kinds.most_common(20)))
    return lines


def costs(found: dict[str, Any], drawn: Sequence[str]) -> list[str]:
    """Errors by model, and by class on the models that were not fitted; the efficiencies."""
    lines = ["### Costs", ""]
    if not found:
        return [*lines, "Not measured, or the card has no profile.", ""]
    every = [r for r in found["errors"] if r["class"] == "all"]
    if not any(r["measured_ms"] for r in every):
        return [*lines, "No op took any time (the phantom's clock stands still): nothing to compare.", ""]
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
            again = " / ".join("yes" if fits else "no" for fits in r["confirmed"])
            rows.append((r["model"], place, cells[0], cells[1], " / ".join(parts), cells[2], again))
        lines += ["A whole run from an empty cache, two steps; GPU / simulated, MiB:", ""]
        head = ("model", "requests at the card's address", "peak reserved", "peak allocated", "fragmentation, %")
        lines += table((*head, "least memory", "trains there once more / 2 MiB below"), rows)
    else:
        lines.append("No run was bisected.")
    lines.append("")
    if found["requests"]:
        rows = [
            (m, p, f"{r['percent']} %", f"{r['equal']} of {r['requests']}", r["agrees"])
            for m, one in found["requests"].items()
            for p, r in one["policies"].items()
        ]
        lines += [
            "Requests of schedules on the caching allocator, performed on the GPU under the same limit, beside the",
            "answers that were simulated when they were made:",
            "",
        ]
        lines += table(("model", "policy", "budget", "answered alike", "all statistics equal"), rows)
    else:
        lines.append("No schedule's requests were performed.")
    return [*lines, ""]


def spent(found: dict[str, dict[str, float]], models: Sequence[str]) -> list[str]:
    """Seconds by task and model: wall-clock time, and of processors."""
    if not found:
        return []

    def cell(task: str) -> str:
        return f"{found[task]['wall_s']:.0f} / {found[task]['cpu_s']:.0f}" if task in found else "-"

    kinds = [f"{kind} of " for kind in ("trace", "schedules", "execution", "smallest memory", "requests", "phantom")]
    rows = [(model, *(cell(kind + model) for kind in kinds)) for model in models]
    every = (f"{sum(one[key] for one in found.values()):.0f}" for key in ("wall_s", "cpu_s"))
    largest = max(one["memory_bytes"] for one in found.values())
    return [
        "### What it took",
        "",
        "Seconds of wall-clock time / of processors:",
        "",
        *table(("model", *(kind.removesuffix(" of ") for kind in kinds)), rows),
        "",
        f"Compiling the core: {cell('compile the core')}. All tasks: {' / '.join(every)}, in two lanes side by side. "
        f"The largest process: {largest / _GIB:.1f} GiB of main memory.",
        "",
    ]


def _pair(pair: Sequence[int]) -> str:
    return " / ".join(f"{b / _MIB:.0f}" for b in pair)


def _error(row: dict[str, float], key: str) -> str:
    return f"{100 * (row[key] / row['measured_ms'] - 1):+.0f}" if row["measured_ms"] else "-"
