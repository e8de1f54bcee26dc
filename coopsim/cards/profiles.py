"""Profiles of real cards: the properties that the phantom GPU reports, the peak rates for the cost model, measurements.

The numbers and their sources are in profiles.toml beside this file; what was measured is in card files, those that
coopsim ships in the folder measured/.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from coopsim.base.errors import PhantomError, alike, named, nearest
from coopsim.cards import card_file, context, wheel
from coopsim.cards.card_file import Measured, is_one
from coopsim.cards.context import Context

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
    context_mib: memory that the CUDA context takes of a training process, an assumption; `context` has readings where
    there are any. source: of the figures. measured: what was measured of the card; None: nothing. like: a measured card
    of the same architecture, if this one is not measured; else None.
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
    measured: Measured | None = field(default=None, compare=False)
    like: "Profile | None" = field(default=None, compare=False)

    @property
    def memory_bytes(self) -> int:
        """Device memory in bytes, the context's included."""
        return self.memory_mib << 20

    @property
    def _lanes_per_sm(self) -> int:
        """FP32 multiply-adds per multiprocessor and cycle (CUDA C++ Programming Guide, arithmetic throughput)."""
        return 64 if self.compute_capability in ("7.0", "7.5", "8.0") else 128

    @property
    def prices(self) -> Mapping[str, Any]:
        """The measured coefficients of costs by class of op; {} where there are none."""
        return self.measured.prices if self.measured else {}

    @property
    def measured_by(self) -> str:
        """When and by whom it was measured; "" if it was not."""
        return f"{self.measured.date[:10]}, {self.measured.by}" if self.measured else ""

    @property
    def context(self) -> Context:
        """What the CUDA context takes with the torch that is installed here; with the newest known if there is none."""
        try:
            torch = wheel.find_any()
        except PhantomError:
            return self.context_with("", "")
        return self.context_with(torch.version, torch.cuda)

    def context_with(self, torch: str, cuda: str) -> Context:
        """Return what the CUDA context takes with a version of torch that was built for a version of CUDA.

        By this card's readings, or else those of a card of its architecture, as it grows with resident threads.
        """
        if self.measured and self.measured.context:
            return context.of(self.measured.context, torch, cuda)
        if self.like and self.like.measured and self.like.measured.context:
            scale = self.sms * self.threads_per_sm / (self.like.sms * self.like.threads_per_sm)
            return context.of(self.like.measured.context, torch, cuda, scale=scale, card=self.like.title)
        return context.assumed(self.context_mib << 20)

    def variables(self) -> dict[str, str]:
        """Return the environment variables that describe the card to the stand-in runtime (see csrc/phantom.h)."""
        measured = self.measured
        link = measured.link if measured else None
        bus = min(link.to_card_gb_s, link.to_host_gb_s) if link else _REACHED * self.pcie_gbs
        host = {"DISPATCH": measured.host_ns_per_op} if measured and measured.host_ns_per_op else {}
        values = {
            "TOTAL": self.memory_bytes,
            **self.context.variables(),
            **host,
            "NAME": self.title,
            "CC": self.compute_capability,
            "SMS": self.sms,
            "THREADS_PER_SM": self.threads_per_sm,
            "SHARED_PER_SM": self.shared_per_sm_kib << 10,
            "SHARED_OPTIN": self.shared_optin_kib << 10,
            "L2": self.l2_kib << 10,
            "CLOCK": round(self.fp32_tflops * 1e9 / (2 * self.sms * self._lanes_per_sm)),
            "MEMORY_CLOCK": round(self.bandwidth_gbs * 1e6 * 8 / (2 * _MEMORY_BUS)),
            "BUS": round(1000 * bus),
            "LINK": round(1000 * _REACHED * (self.nvlink_gbs or self.pcie_gbs)),
            "LINK_STEP": _NVLINK_STEP_NS if self.nvlink_gbs else _PCIE_STEP_NS,
            "NETWORK": round(1000 * _REACHED * self.network_gbs),
        }
        return {f"COOPSIM_PHANTOM_{key}": str(value) for key, value in values.items()}


@cache
def _from_data() -> dict[str, dict[str, Any]]:
    text = resources.files("coopsim.cards").joinpath("profiles.toml").read_text(encoding="utf-8")
    return {name: {"name": name} | fields for name, fields in tomllib.loads(text).items()}


def _base(name: str) -> dict[str, Any]:
    if name not in _from_data():
        raise PhantomError(f"unknown card {name[:40]!r}")
    return _from_data()[name]


@cache
def _all() -> dict[str, Profile]:
    found = {name: Profile(**fields) for name, fields in _from_data().items()}
    folder = resources.files("coopsim.cards").joinpath("measured")
    measured = [_of_file(str(file), file.read_text(encoding="utf-8")) for file in folder.iterdir() if is_one(file.name)]
    found |= {profile.name: profile for profile in measured}
    return {name: _with_like(profile, measured) for name, profile in found.items()}


def _with_like(profile: Profile, measured: list[Profile]) -> Profile:
    of_its_kind = (one for one in measured if one.compute_capability == profile.compute_capability)
    return profile if profile.measured else replace(profile, like=next(of_its_kind, None))


def _of_file(path: str, text: str | None = None) -> Profile:
    fields, measured = card_file.read(path, _base) if text is None else card_file.parse(text, path, _base)
    card = Profile(**{"context_mib": 0} | fields, measured=measured)
    return replace(card, context_mib=card.context.training_bytes >> 20) if measured.context else card


def names() -> dict[str, str]:
    """Return the title of every card, by its short name."""
    return {name: profile.title for name, profile in _all().items()}


def titled(title: str) -> Profile | None:
    """Return the card with a title as its driver reports it, in whatever case, or one that begins it word by word.

    So a MIG slice is its card's. The longest counts; None if no card is called so.
    """
    words = title.lower().split()
    alike = [one for one in _all().values() if words[: len(own := one.title.lower().split())] == own]
    return max(alike, key=lambda one: len(one.title), default=None)


def get(name: str) -> Profile:
    """Return the card called `name`, or that of a card file, if the name ends in `.json`.

    Raises PhantomError, which suggests others, if there is none, and for a bad file.
    """
    name = named("card", name)
    if is_one(name):
        return _of_file(name)
    if name not in _all():
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
    text = resources.files("coopsim.cards").joinpath("others.toml").read_text(encoding="utf-8")
    return {name: (capability, gib) for name, (capability, gib) in tomllib.loads(text).items()}


def _bare(name: str) -> str:
    """Return a name without vendor, series and separators: `NVIDIA GeForce RTX 3080` is 3080."""
    return re.sub(r"nvidia|geforce|tesla|quadro|rtx|gtx|sxm\d?|hbm\d?|[^a-z0-9]", "", name.lower())
