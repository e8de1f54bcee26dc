"""Train a program inside a budget and without one, and compare all that is left, bit by bit."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

import coopsim.live
from coopsim.cards.link import Link
from coopsim.live import residency
from coopsim.live.budget import offer
from coopsim.live.copies import Engines
from coopsim.live.host import Hosting
from coopsim.live.session import TrainingSession
from coopsim.record.observe.torch_private import DisableTorchDispatch
from coopsim.simulate.options import ReplayOptions
from tests.live.programs import PROGRAMS

STEPS = 9


class LateEngines(Engines):
    """A copy is made when it is waited for, the latest moment at which it may end on a GPU.

    So what a GPU's engines could read or overwrite out of turn shows in the numbers.
    """

    def __init__(self) -> None:
        self._waiting: tuple[deque[Callable[[], object]], ...] = deque(), deque()
        self._made = [0, 0]

    def begin(self, way: int, to: torch.Tensor, source: torch.Tensor) -> int:
        """Put a copy at the end of its queue; the mark is its number."""
        self._waiting[way].append(lambda: to.copy_(source))
        return self._made[way] + len(self._waiting[way]) - 1

    def wait(self, way: int, end: int) -> None:
        """Make the copies up to this one."""
        with DisableTorchDispatch():
            while self._made[way] <= end:
                self._waiting[way].popleft()()
                self._made[way] += 1


residency.Engines = LateEngines  # type: ignore[misc]


class FastHost(Hosting):
    """Of a link so fast that plans offload rather than recompute, as small ops on the CPU take no time."""

    @property
    def options(self) -> ReplayOptions:
        return ReplayOptions(steps=1, link=Link("fast", 1_000_000, 1_000_000, 0), host_memory=self.memory_bytes)


def compare(
    name: str,
    memory: str | None,
    policy: str = "foresight-offline",
    steps: int = STEPS,
    plan: str | None = None,
    offload: Hosting | None = None,
    *,
    background: bool = False,
) -> dict[str, Any]:
    """The report of the run inside the budget, and `same`: were losses and all states the same?"""
    losses, wanted = plain(name, steps)
    torch.manual_seed(1)
    state, step = PROGRAMS[name]()
    if offload is not None or background:
        offer(lambda: TrainingSession(memory, policy, plan=plan, offload=offload, background=background))
    budget = coopsim.live.Budget(memory, policy, plan)
    found = []
    for i in range(steps):
        with budget.step():
            found.append(step(i))
    return budget.report() | {"same": losses == found and wanted == bits(state)}


def plain(name: str, steps: int) -> tuple[list[Any], list[tuple[torch.Size, bytes]]]:
    """Losses and the bits of all states of a run without a budget, of which nothing is left."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    state, step = PROGRAMS[name]()
    losses = [step(i) for i in range(steps)]
    wanted = bits(state)
    del state, step
    gc.collect()  # what is left of it would count
    return losses, wanted


def bits(state: Any) -> list[tuple[torch.Size, bytes]]:
    """Of all tensors in it: shape and bytes."""
    return [_bits(tensor) for tensor in _tensors(state)]


def _bits(tensor: torch.Tensor) -> tuple[torch.Size, bytes]:
    """Shape and bytes: another tensor would count as memory of the program."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return tensor.shape, flat.view(torch.uint8).numpy().tobytes()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """In modules, optimizers and whatever else has a state: parameters, buffers, moments, scales."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
    elif hasattr(value, "state_dict"):
        yield from _tensors(value.state_dict())
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, float):
        yield torch.tensor(value)
