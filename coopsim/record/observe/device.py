"""The device that a recorded program runs on: the phantom GPU, or a real one."""

from typing import Any

import torch

from coopsim.cards.profiles import Profile
from coopsim.phantom.control import Collective, Control
from coopsim.record.observe import layout
from coopsim.record.observe.native import memory
from coopsim.record.observe.temporaries import History
from coopsim.record.observe.torch_private import raw_stream


class Device:
    """What the recorder asks of a device. This one runs ops, and has no streams, no allocator and no NCCL."""

    history: History

    @property
    def header(self) -> dict[str, Any]:
        """The entries of the trace's header that describe the device: its name, and what else is known of it."""
        raise NotImplementedError

    def stream(self) -> int:
        """Return CUDA's handle of this thread's current stream, an address; 0 is the default stream."""
        return 0

    def clear(self, tensor: torch.Tensor) -> None:
        """Note that an op has made this tensor other than by copying bytes; the phantom device zeroes its storage."""

    def collective(self) -> Collective | None:
        """Return the collective that the last op gave to NCCL; None if it gave none, or if that is not known."""
        return None

    def steady(self) -> None:
        """Empty the allocator's cache and reset its peaks, between warm-up and recording."""

    def layout(self) -> list[dict[str, Any]] | None:
        """Return the allocator's segments and their blocks (layout.snapshot); None if they are not known."""
        return None

    def requested_bytes(self) -> int:
        """Return the bytes that were requested of the allocator and not yet freed."""
        return 0

    def peaks(self) -> dict[str, int]:
        """Return the allocator's peaks since `steady`, in bytes, by name in the header ("peak_allocated_bytes")."""
        return {}


class RealDevice(Device):
    """The GPU that PyTorch finds. Jobs of several ranks are recorded on the phantom GPU only."""

    def __init__(self) -> None:
        self.history = History()

    @property
    def header(self) -> dict[str, Any]:
        """The entries of the trace's header that describe device 0: name, bytes, versions of CUDA and cuDNN, …."""
        facts = torch.cuda.get_device_properties(0)
        return {
            "device": facts.name,
            "device_memory_bytes": facts.total_memory,
            "compute_capability": f"{facts.major}.{facts.minor}",
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        }

    def stream(self) -> int:
        return raw_stream(torch.cuda.current_device())

    def steady(self) -> None:
        torch.cuda.empty_cache()  # the recorded steps do not need what the warm-up left cached
        torch.cuda.reset_peak_memory_stats()

    def layout(self) -> list[dict[str, Any]] | None:
        return layout.snapshot()

    def requested_bytes(self) -> int:
        return int(torch.cuda.memory_stats()["requested_bytes.all.current"])

    def peaks(self) -> dict[str, int]:
        stats = torch.cuda.memory_stats()
        return {
            f"peak_{what}_bytes": stats[f"{what}_bytes.all.peak"] for what in ("requested", "allocated", "reserved")
        }


class PhantomDevice(RealDevice):
    """The phantom GPU, which imitates a given card."""

    def __init__(self, card: Profile) -> None:
        super().__init__()
        self._card, self._control = card, Control()
        torch.distributions.Distribution.set_default_validate_args(False)  # kernels do nothing: values are meaningless

    @property
    def header(self) -> dict[str, Any]:
        """The entries of the trace's header that describe the device: "phantom" and the card's title, and its name."""
        return {"device": f"phantom {self._card.title}", "card": self._card.name}

    def clear(self, tensor: torch.Tensor) -> None:
        """Zero the tensor's storage: no kernel has written to it, and an earlier copy may have left data there."""
        self._control.clear(*memory(tensor))

    def collective(self) -> Collective | None:
        return self._control.collective()
