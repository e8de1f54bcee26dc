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

    The project's history records no sweep of any of them.
    """

    rungs: tuple[float, ...] = (0.02, 0.03, 0.04, 0.08, 0.16)
    """Shares of the budget that plans on a GPU leave for what the caching allocator cannot use, one after the other,
    until steps are steady; after steps that were not, the next leaves twice as much at least. U-Net's in half its
    memory exceed the budget by 0.1 % where they leave 2 % of it, and cost 2 points more by 8 % than by 3."""

    arena_rungs: tuple[float, ...] = (0.0, 0.0025, 0.0075, 0.0175, 0.0375, 0.0775, 0.1575)
    """The same in an arena, until all requests of a plan have addresses."""

    validating_steps: int = 3
    """Successive steps that keep to the budget before a plan is validated: what the allocator has free, and where,
    differs from step to step. 1: the first step validates it."""

    warm_up_steps: int = 3
    """Steps by a new plan that may take memory from the device or give it back while the caching allocator's segments
    take their shape; by the next that does, in steps of one signature that follow each other, it is replanned.
    `sys.maxsize`: never."""

    retry_ns: float = 4.1e6
    """What a step loses that gives back the allocator's cache once: the driver's time on the host, for 39 pages to
    unmap and 40 to map, on an H100 in GPT-2 at half its memory. A plan that costs more than that is not adopted. 0.0:
    it is replanned for that only where it costs nothing."""

    page_bytes: int = 20 << 20
    """On a GPU, of an expandable segment: plans that exceed the budget by as many count as equally close to it."""

    def margins(self, limit: int) -> list[int]:
        """Margins in a budget in bytes, the least first."""
        return [int(limit * rung) for rung in self.rungs]

    def arena_margins(self, limit: int, least: int = 0) -> list[int]:
        """The same in an arena, of at least so many bytes."""
        return [margin for rung in self.arena_rungs if (margin := int(limit * rung)) >= least]
