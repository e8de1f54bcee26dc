"""Parts of a report in words, as `phantom run` and `fit` print them: rows of (label, text), and lines of caution.

Sizes and loops may depend on data, which the phantom GPU does not have.

A bound is a run in which boolean masks, `nonzero` and the like are taken to keep all of their elements (the upper
bound), or none (the lower bound).
"""

from collections.abc import Sequence
from typing import Any

from coopsim.base.text import count, human
from coopsim.run.report import Bound, Report

_KEPT = {"all": "all of their elements", "half": "half of their elements", "none": "nothing"}

_READS = ("aten._to_copy", "aten.copy_", "aten._local_scalar_dense")


def kept(report: Report) -> str:
    """Return what masks were taken to keep in a run (Report.masks), in words: "half of their elements"."""
    return _KEPT[report.masks] + (", an upper bound on allocated bytes" if report.masks == "all" else "")


def of_masks(report: Report) -> list[tuple[str, str]]:
    """Return the rows of a printed report on masks, as (name, text): what they keep; the figures with the other bound.

    [] if no size depends on a mask.
    """
    if not report.depends_on_masks and report.other_masks is None:
        return []
    found = [("masks", f"keep {kept(report)} (--masks)")]
    if report.other_masks is not None:
        found.append(("", other(report.other_masks)))
    return found


def other(bound: Bound) -> str:
    """Return what a script takes with the other bound, in words: its peaks and whether it trains, or why it fails."""
    if bound.failure:
        return f"if they keep {_KEPT[bound.masks]}, the script fails: {bound.failure}"
    assert bound.peak_allocated_bytes is not None
    assert bound.peak_reserved_bytes is not None
    peaks = f"{human(bound.peak_allocated_bytes)} allocated, {human(bound.peak_reserved_bytes)} reserved"
    ends = "it trains" if bound.outcome == "ok" else "memory runs out, too"
    return f"if they keep {_KEPT[bound.masks]}: {peaks} at the peaks, and {ends}"


def cautions(report: Report) -> list[str]:
    """Return lines to print: for each op that takes a size from data, for each loop that was ended, for benchmarks, for
    workspaces that are not counted, for memory that waits for Python's garbage collector, and for inputs of varying
    sizes.
    """
    found = about_sizes(report.needs_data, report.masks) + about_loops(report.loops_ended)
    found += about_benchmarks(report.benchmarked, report.memory_bytes)
    found += about_workspaces(report.left_out_workspace_bytes, report.peak_reserved_bytes)
    found += about_garbage(report.garbage_bytes, report.peak_allocated_bytes)
    return found + about_inputs(report.input_sizes) * (report.replay is None)


def about_inputs(sizes: dict[str, Any] | None) -> list[str]:
    """Return a line on Report.input_sizes, with the way to ask about larger ones; [] if no sizes vary."""
    if not sizes:
        return []
    largest = " x ".join(map(str, sizes["largest"]))
    return [
        f"caution: inputs of {sizes['seen']} sizes, up to {largest}; of larger ones nothing is known: "
        "run the largest there are, or name the lengths of a long run (--lengths F)"
    ]


def about_sizes(needs_data: Sequence[dict[str, Any]], masks: str) -> list[str]:
    """Return a line to print for each op in `needs_data` (Report.needs_data).

    Such an op takes a size from data, or gives data of a mask to the host. `masks`: what masks were taken to keep,
    "all", "half" or "none".
    """
    says = {
        "masks": f"which are unknown here: masks keep {_KEPT[masks]}",
        "even": "which are assumed to be even: each expert or class gets its share",
    }
    return [
        f"caution: {need['op']} at {need['place']} ({need['calls']} calls) {_does(need['op'])} data on the device, "
        f"{says[need['by']]}"
        for need in needs_data
    ]


def about_benchmarks(benchmarked: bool, memory_bytes: int) -> list[str]:
    """Return a line on cudnn.benchmark, if the script has convolutions and lets cuDNN measure which are fastest."""
    if not benchmarked:
        return []
    return [
        "caution: cudnn.benchmark takes the fastest convolutions, which only the card knows: the peaks lie between "
        f"these and all of its {human(memory_bytes)} (a ResNet reserved 2408 MiB on an H100, and 266 MiB here)"
    ]


def about_workspaces(left_out: int, reserved: int) -> list[str]:
    """Return a line on the largest of cuDNN's workspaces that are not counted, if it is 1 % of the peak or more."""
    if left_out < 0.01 * reserved:
        return []
    return [
        "caution: workspaces of cuDNN are not counted here: by the rules of an H100 the largest takes "
        f"{human(left_out)} while an op runs (--workspaces rule counts them)"
    ]


def about_garbage(freed: int, allocated: int) -> list[str]:
    """Return a line on tensors in reference cycles, if the collector freed 1 % of the peak or more at once."""
    if not freed or freed < 0.01 * allocated:
        return []
    return [
        f"caution: Python's garbage collector freed {human(freed)} at once, tensors in reference cycles; when it runs "
        "differs from run to run, and peaks with it: break the cycles, or call gc.collect() after each step"
    ]


def _does(op: str) -> str:
    return "gives the host" if op.startswith(_READS) else "takes its sizes from"


def about_loops(loops: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line to print for each loop in `loops` (Report.loops_ended), one that waits for a card's value."""
    return [
        f"caution: the loop at {loop['place']} waits for a value that only a card computes; it was ended after "
        f"{loop['iterations']} iterations" + (f", {loop['times']} times" if loop["times"] > 1 else "")
        for loop in loops
    ]


def of_host(host: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, text) for each line about Report.host; a line without a label goes on with the one above.

    No rows if the host was not looked at.
    """
    if not host:
        return []
    found = [("host", f"{human(host['peak_rss_bytes'])} of its own memory at the peak, without CUDA's libraries")]
    workers = host["workers"]
    if workers["count"]:
        beside = f"{count(workers['count'], 'process', 'es')} beside it: {human(workers['peak_rss_bytes'])} in all"
        found.append(("", f"{beside}; {human(host['shared_bytes'])} of shared memory"))
    for loader in host["loaders"]:
        kept = f"{loader['workers']} workers, {loader['prefetch']} batches each"
        found.append(("", f"by a DataLoader at {loader['place']}: {kept}"))
    if host["pinned_bytes"]:
        lines = [f"{one['place']}: {human(one['bytes'])} in all" for one in host["pinned_by"] if one["place"]]
        found.append(("pinned", f"{human(host['pinned_bytes'])} at the peak" + "".join(f"; {line}" for line in lines)))
    return found


def of_unused(unused: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (label, text) for each variable in Report.unused; only the first has a label."""
    return [("" if i else "unused", unused_text(one)) for i, one in enumerate(unused)]


def unused_text(one: dict[str, Any]) -> str:
    """Return what is said of one variable: its name, its line, and what it keeps."""
    at = f" ({one['place']})" if one["place"] else ""
    tensors = f"{one['tensors']} tensor{'' if one['tensors'] == 1 else 's'}"
    return f"{one['name']}{at} keeps {human(one['bytes'])} on the card, {tensors} that no step reads"
