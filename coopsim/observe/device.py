"""Where the program runs: on the phantom GPU, on a real one, or nowhere, with fake tensors.

The recorder and what goes with it ask these objects and never torch.cuda, which the last of the three lacks.
"""

from typing import Any, Protocol

import torch

from coopsim.observe import layout
from coopsim.observe.native import memory
from coopsim.observe.temporaries import History
from coopsim.observe.torch_private import raw_stream
from coopsim.phantom.control import Collective, Control
from coopsim.phantom.profiles import Profile


class Device(Protocol):
    """What is asked of a place to run."""

    history: History
    has_a_mode: bool  #: is a dispatch mode of its own active?

    @property
    def header(self) -> dict[str, Any]:
        """What the trace's header says of it."""

    def stream(self) -> int:
        """A handle of the current stream; 0 is the default one."""

    def clear(self, tensor: torch.Tensor) -> None:
        """An op has made this tensor, and not by copying bytes."""

    def value(self, func: Any, args: tuple[Any, ...]) -> Any:
        """What an op gives that hands a value to the host; None: ask the op."""

    def collective(self) -> Collective | None:
        """What NCCL was given to do by the op that has just run."""

    def steady(self) -> None:
        """Between warm-up and recording: forget the cache and the peaks."""

    def layout(self) -> list[dict[str, Any]]:
        """How memory lies (layout.py)."""

    def requested_bytes(self) -> int:
        """What is asked of the allocator and not given back."""

    def peaks(self) -> dict[str, int]:
        """Since `steady`, for the header."""


class RealDevice:
    """The GPU that PyTorch finds."""

    has_a_mode = False

    def __init__(self) -> None:
        self.history = History()

    @property
    def header(self) -> dict[str, Any]:
        """What the trace's header says of it."""
        facts = torch.cuda.get_device_properties(0)
        return {
            "device": facts.name,
            "device_memory_bytes": facts.total_memory,
            "compute_capability": f"{facts.major}.{facts.minor}",
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        }

    def stream(self) -> int:
        """A handle of the current stream; 0 is the default one."""
        return raw_stream(torch.cuda.current_device())

    def clear(self, _: torch.Tensor) -> None:
        """The data are what a kernel made."""

    def value(self, _func: Any, _args: tuple[Any, ...]) -> Any:
        """Values are what they are."""

    def collective(self) -> Collective | None:
        """Nobody knows: jobs of several ranks are recorded on the phantom GPU."""
        return None

    def steady(self) -> None:
        """Between warm-up and recording: forget the cache and the peaks."""
        torch.cuda.empty_cache()  # what the warm-up left unused is no need of the recorded steps
        torch.cuda.reset_peak_memory_stats()

    def layout(self) -> list[dict[str, Any]]:
        """How memory lies (layout.py)."""
        return layout.snapshot()

    def requested_bytes(self) -> int:
        """What is asked of the allocator and not given back."""
        return int(torch.cuda.memory_stats()["requested_bytes.all.current"])

    def peaks(self) -> dict[str, int]:
        """Since `steady`, for the header."""
        stats = torch.cuda.memory_stats()
        return {
            f"peak_{what}_bytes": stats[f"{what}_bytes.all.peak"] for what in ("requested", "allocated", "reserved")
        }


class PhantomDevice(RealDevice):
    """The phantom GPU, as some card."""

    def __init__(self, card: Profile) -> None:
        super().__init__()
        self._card, self._control = card, Control()
        torch.distributions.Distribution.set_default_validate_args(False)  # there are no values to be valid

    @property
    def header(self) -> dict[str, Any]:
        """What the trace's header says of it."""
        return {"device": f"phantom {self._card.title}", "card": self._card.name}

    def clear(self, tensor: torch.Tensor) -> None:
        """A kernel has not run: let its result read as zeros, whatever a copy left at its address before."""
        self._control.clear(*memory(tensor))

    def collective(self) -> Collective | None:
        """What NCCL was given to do by the op that has just run."""
        return self._control.collective()
