"""What is set before steps run: PyTorch's allocator, and how much of the budget a plan leaves unused."""

import os
from dataclasses import dataclass

#: Free memory is joined by remapping pages, so that fragments add up.
_SETTING = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
_SET_BY = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def allocator_variables() -> tuple[tuple[str, str], ...]:
    """The environment variables to set for PyTorch's allocator, as (name, value); () if the environment has some."""
    return () if any(name in os.environ for name in _SET_BY) else (_SETTING,)


@dataclass(frozen=True)
class PlanningParameters:
    """Parameters of `Planning`. A *margin* is the part of the budget, in bytes, that a plan leaves unused.

    Each says which change brought its value, by the subject of the commit, and how to switch its effect off. The
    project's history records no sweep of any of them.
    """

    max_replans: int = 8
    """Plans made anew per step signature. 3 at first, 4 with the allocator's cap, 6 with margins that doubled, and 8
    since "mended plans are the cheapest that are left to try". 0: none, or in an arena once."""

    first_margin_divisor: int = 50
    """The first plan on a GPU leaves a fiftieth of the budget for what the caching allocator cannot use. Added with the
    first rows of six models under a cap, in "what it saves, six models under a cap of the budget". 0: no margin."""

    margins_tried: int = 3
    """Margins that are tried for one plan, each halfway from the one before to the margin so far. Added with "margins
    that double" as the number of smaller margins after a failure. 1: only the margin that was asked for."""

    validating_steps: int = 3
    """Successive steps that keep to the budget before a plan is validated: what the allocator has free, and where,
    differs from step to step. Added in "a plan is proven by three steps in a row". 1: the first step validates it."""

    warm_up_steps: int = 3
    """Steps by a new plan that may take memory from the device or give it back while the caching allocator's segments
    take their shape; by the next that does, in steps of one signature that follow each other, it is replanned. Added
    in "a plan is mended until its steps leave the device's memory alone". `sys.maxsize`: never."""

    retry_ns: float = 4.1e6
    """What a step loses that gives back the allocator's cache once: the driver's time on the host, for 39 pages to
    unmap and 40 to map, on an H100 in GPT-2 at half its memory. A plan that costs more than that is not adopted.
    Added with `warm_up_steps`. 0.0: it is replanned for that only where it costs nothing."""

    least_margin: float = 0.01
    """The least margin of a plan made anew, as a share of the budget. 0.02 with the allocator's cap, and 0.01 since
    "margins that double". 0.0: no least margin."""

    margin_growth: float = 1.5
    """A plan made anew leaves at least this many times the largest margin tried so far. Margins doubled before "mended
    plans are the cheapest that are left to try". 1.0: margins grow only by the bytes that a step was over."""

    margin_growth_once: float = 2.0
    """The same where a margin cannot be approached in small steps: for the first step of a program, which runs once,
    and for steps that ran out of memory or were not steady, whose excess is unknown ("a plan whose step ran out of
    memory is mended by larger margins at once"). Equal to `margin_growth`: no difference is made."""

    equal_excess_bytes: int = 20 << 20
    """On a GPU, plans whose excess differs by no more than a page of an expandable segment, 20 MiB, count as equally
    close to the budget. Added in "mended plans are the cheapest that are left to try". 0: the smallest excess wins."""

    keep_calls_factor: float = 2.0
    """Where a step needs more than the budget divided by this, its validated plan keeps the call of every op, so that
    any value can be evicted if a step leaves the plan. Added in "plans that nearly fill the budget keep all calls".
    `math.inf`: always; 0.0: only the calls that the plan itself runs again."""

    def first_margin(self, limit: int, steady: int) -> int:
        """What the first plan of a signature on a GPU leaves of a budget, in bytes; at least `steady`, if anything."""
        return max(limit // self.first_margin_divisor, steady) if self.first_margin_divisor else 0
