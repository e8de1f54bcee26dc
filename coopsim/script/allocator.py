"""How a script configures PyTorch's allocator: which one, and how much of the card it may use."""

import torch

_DRIVERS = "cudaMallocAsync"
_FOREIGN = (
    f"PYTORCH_CUDA_ALLOC_CONF asks for backend:{_DRIVERS}, the driver's allocator; only PyTorch's own can be looked "
    "at: leave it out"
)
_fractions: dict[int, float] = {}


def unmet() -> str:
    """Return why the script's allocator cannot be observed (it is cudaMallocAsync), as a message; "" if it can."""
    return _FOREIGN if torch.cuda.get_allocator_backend() == _DRIVERS else ""


def watch_fraction() -> None:
    """From now on, remember for `fraction` what torch.cuda.set_per_process_memory_fraction sets.

    PyTorch itself returns it rounded, and not before 2.9.
    """
    set_fraction = torch._C._cuda_setMemoryFraction

    def remembered(fraction: float, device: int) -> None:
        set_fraction(fraction, device)
        _fractions[device] = fraction

    torch._C._cuda_setMemoryFraction = remembered


def fraction(device: int) -> float | None:
    """Return the fraction (0 to 1) of a device's memory that PyTorch's allocator may use; None if it may use all of it.

    It is what the script has set (`watch_fraction`), or else what PYTORCH_CUDA_ALLOC_CONF says.
    """
    found = _fractions.get(device)
    told = getattr(torch._C, "_cuda_getMemoryFraction", None)
    if found is None and told is not None and torch.cuda.get_allocator_backend() == "native":
        found = float(told(device))  # one may come from PYTORCH_CUDA_ALLOC_CONF
    return None if found is None or found >= 1 else found
