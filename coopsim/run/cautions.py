"""What a reader of a report is warned of: figures that another run, or the card, may not have."""

from collections.abc import Iterator

from coopsim.base.text import human
from coopsim.run.figure import AnyReport


def default_choices(report: AnyReport) -> Iterator[str]:
    if report.default_choices:
        yield (
            "caution: max-autotune chooses kernels by times that only the card itself has; these figures are with "
            "Inductor's default choices"
        )


def benchmarked(report: AnyReport) -> Iterator[str]:
    if report.benchmarked:
        yield (
            "caution: cudnn.benchmark takes the fastest convolutions, which only the card knows: the peaks lie between "
            f"these and all of its {human(report.memory_bytes)} (a ResNet reserved 2408 MiB on an H100, and 266 MiB "
            "here)"
        )


def split_limit(report: AnyReport) -> Iterator[str]:
    """The limit to splitting beside expandable segments, if a tenth of the reserved memory was not allocated."""
    if report.split_limit_mib and report.peak_allocated_bytes < 0.9 * report.peak_reserved_bytes:
        yield (
            f"caution: with max_split_size_mb:{report.split_limit_mib}, smaller tensors take no part of a free block "
            "of that size or more, and expandable segments, which join free blocks, grow instead: leave it out"
        )


def garbage(report: AnyReport) -> Iterator[str]:
    """Tensors in reference cycles, if the collector freed 1 % of the peak or more at once."""
    if report.garbage_bytes >= max(0.01 * report.peak_allocated_bytes, 1):
        yield (
            f"caution: Python's garbage collector freed {human(report.garbage_bytes)} at once, tensors in reference "
            "cycles; when it runs differs from run to run, and peaks with it: break the cycles, or call gc.collect() "
            "after each step"
        )


def left_out(report: AnyReport) -> Iterator[str]:
    """The largest of cuDNN's workspaces that are not counted, if it is 1 % of the peak or more."""
    if report.left_out_workspace_bytes >= max(0.01 * report.peak_reserved_bytes, 1):
        yield (
            "caution: workspaces of cuDNN are not counted here: by the rules of an H100 the largest takes "
            f"{human(report.left_out_workspace_bytes)} while an op runs (--workspaces rule counts them)"
        )


def watched_by_mode(report: AnyReport) -> Iterator[str]:
    from coopsim.phantom import compilers

    if report.watched_by_mode:
        yield (
            f"caution: {compilers.why_not()}: this run was watched by a dispatch mode, for which some of autograd's "
            "formulas take more memory than on a card, up to half as much again"
        )
