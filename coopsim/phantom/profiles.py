"""Profiles of real cards: the properties that the phantom GPU reports, and the peak rates for the cost model.

The numbers and their sources are in profiles.toml beside this file.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from coopsim.errors import alike, named, nearest
from coopsim.phantom.errors import PhantomError

#: Bits of the memory bus that every card reports (csrc/device.c); its memory clock is chosen to give the bandwidth.
_MEMORY_BUS = 256
#: The share of a link's speed that copies and NCCL reach. ASSUMPTION, after copies of pinned memory at 25.1 of 31.5
#: GB/s
#: (NVIDIA/nvbandwidth issue 42).
_REACHED = 0.8
_AMD = re.compile(r"(?i)(amd\b|radeon|instinct|rx[ -]?\d|mi-?\d{2,3})")
_NVLINK_STEP_NS, _PCIE_STEP_NS = 3400, 5700  #: latency of a step of NCCL's rings (csrc/nccl_time.c has the source)


@dataclass(frozen=True)
class Profile:
    """One card. Rates are dense peaks in TFLOP/s (0: no such unit), those of memory and links in 1e9 bytes per second.

    Links count one direction; nvlink_gbs is 0 without NVLink, network_gbs the card's share of its machine's network.
    context_mib: memory that the CUDA context takes. source: of the figures.
    """

    name: str
    title: str
    memory_mib: int
    compute_capability: str
    sms: int
    threads_per_sm: int
    shared_per_sm_kib: int
    shared_optin_kib: int
    l2_kib: int
    fp32_tflops: float
    tf32_tflops: float
    bf16_tflops: float
    fp16_tflops: float
    bandwidth_gbs: float
    nvlink_gbs: float
    pcie_gbs: float
    network_gbs: float
    context_mib: int
    source: str

    @property
    def memory_bytes(self) -> int:
        """Device memory in bytes, the context's included."""
        return self.memory_mib << 20

    @property
    def _lanes_per_sm(self) -> int:
        """FP32 multiply-adds per multiprocessor and cycle (CUDA C++ Programming Guide, arithmetic throughput)."""
        return 64 if self.compute_capability in ("7.0", "7.5", "8.0") else 128

    def variables(self) -> dict[str, str]:
        """Return the environment variables that describe the card to the stand-in runtime (see csrc/phantom.h)."""
        values = {
            "TOTAL": self.memory_bytes,
            "CONTEXT": self.context_mib << 20,
            "NAME": self.title,
            "CC": self.compute_capability,
            "SMS": self.sms,
            "THREADS_PER_SM": self.threads_per_sm,
            "SHARED_PER_SM": self.shared_per_sm_kib << 10,
            "SHARED_OPTIN": self.shared_optin_kib << 10,
            "L2": self.l2_kib << 10,
            "CLOCK": round(self.fp32_tflops * 1e9 / (2 * self.sms * self._lanes_per_sm)),
            "MEMORY_CLOCK": round(self.bandwidth_gbs * 1e6 * 8 / (2 * _MEMORY_BUS)),
            "BUS": round(1000 * _REACHED * self.pcie_gbs),
            "LINK": round(1000 * _REACHED * (self.nvlink_gbs or self.pcie_gbs)),
            "LINK_STEP": _NVLINK_STEP_NS if self.nvlink_gbs else _PCIE_STEP_NS,
            "NETWORK": round(1000 * _REACHED * self.network_gbs),
        }
        return {f"COOPSIM_PHANTOM_{key}": str(value) for key, value in values.items()}


@cache
def _all() -> dict[str, Profile]:
    text = resources.files("coopsim.phantom").joinpath("profiles.toml").read_text(encoding="utf-8")
    return {name: Profile(name=name, **fields) for name, fields in tomllib.loads(text).items()}


def names() -> dict[str, str]:
    """Return the title of every card, by its short name."""
    return {name: profile.title for name, profile in _all().items()}


def get(name: str) -> Profile:
    """Return the card called `name`. Raises PhantomError, which suggests others, if there is none."""
    if named("card", name) not in _all():
        raise PhantomError(f"unknown card {name!r}; {_instead(name)}")
    return _all()[name]


def _instead(name: str) -> str:
    """Suggest a card for an unknown name: one of its architecture and memory if these are known, else like names."""
    wanted = _bare(name)
    if _AMD.match(name.strip()):
        return "it is AMD's, and the phantom GPU imitates NVIDIA's cards only: PyTorch's build for AMD is another one"
    for other, (capability, gib) in _others().items():
        if _bare(other) == wanted:
            same = [p for p in _all().values() if p.compute_capability == capability]
            if not same:
                known = ", ".join(f"{p.name} ({p.compute_capability})" for p in _all().values())
                return f"none of its architecture (compute capability {capability}) is known, only {known}"
            near = min(same, key=lambda p: (abs(p.memory_mib - gib * 1024) // 2048, -alike(p.name, other)))
            return f"of the same architecture is --gpu {near.name} --memory {gib}GiB (less what the driver keeps of it)"
    begun = [p for p in _all() if len(wanted) > 2 and _bare(p).startswith(wanted)]  # a100 is an A100, not an A10G
    likely = begun or nearest(name.lower(), _all(), likeness=0.4)
    hint = f"did you mean {' or '.join(likely)}?" if likely else f"there are {', '.join(_all())};"
    return f"{hint} for another card take one of its architecture, with --memory"


@cache
def _others() -> dict[str, tuple[str, int]]:
    text = resources.files("coopsim.phantom").joinpath("others.toml").read_text(encoding="utf-8")
    return {name: (capability, gib) for name, (capability, gib) in tomllib.loads(text).items()}


def _bare(name: str) -> str:
    """Return a name without vendor, series and separators: `NVIDIA GeForce RTX 3080` is 3080."""
    return re.sub(r"nvidia|geforce|tesla|quadro|rtx|gtx|sxm\d?|hbm\d?|[^a-z0-9]", "", name.lower())
