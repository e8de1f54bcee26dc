"""The card of a card file: the profile that describes it, or one made of what the card says and the nearest profile."""

import re
from dataclasses import replace
from typing import Any

from coopsim.cards import profiles
from coopsim.phantom import Profile

#: What the card itself says, which is taken in place of what a profile has.
_READ = ("sms", "threads_per_sm", "shared_per_sm_kib", "shared_optin_kib", "l2_kib", "compute_capability")
_RATES = ("fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops")


def of(card: dict[str, Any], max_mhz: float | None) -> dict[str, Any]:
    """Return the section `card` of a card file, for what calibrate/on_card.py says of the card.

    max_mhz: the highest clock of its multiprocessors, if known. Of a card without a profile, the rates are the nearest
    profile's, in proportion to multiprocessors and clock, and its memory's by clock and width if it says these.
    """
    memory = {"memory_mib": card["memory_bytes"] >> 20}
    known = next((profile for profile in map(profiles.get, profiles.names()) if profile.title == card["title"]), None)
    read = {key: card[key] for key in _READ if card[key]}
    if known is not None:
        return {"profile": known.name} | memory | {k: v for k, v in read.items() if getattr(known, k) != v}
    near = nearest(card)
    scale = card["sms"] / near.sms * (max_mhz / _mhz(near) if max_mhz else 1.0)
    found = {"profile": near.name, "name": _name(card["title"]), "title": card["title"]} | memory | read
    found |= {key: round(scale * getattr(near, key), 1) for key in _RATES}
    if card["memory_clock_khz"] and card["memory_bus_bits"]:  # two transfers per clock
        found["bandwidth_gbs"] = round(2 * card["memory_clock_khz"] * card["memory_bus_bits"] / 8 / 1e6)
    source = f"the card's own properties; rates by multiprocessors and clock after the {near.title}'s; links: its"
    return found | {"source": source}


def described(section: dict[str, Any]) -> Profile:
    """Return the card that a section `card` describes."""
    return replace(profiles.get(section["profile"]), **{k: v for k, v in section.items() if k != "profile"})


def nearest(card: dict[str, Any]) -> Profile:
    """Return the profile of the same or the nearest architecture whose multiprocessors are nearest in number."""
    every = map(profiles.get, profiles.names())
    wanted = float(card["compute_capability"])
    return min(every, key=lambda p: (abs(float(p.compute_capability) - wanted), abs(p.sms - card["sms"])))


def _mhz(profile: Profile) -> float:
    """The clock with which a profile's multiprocessors reach its FP32 rate."""
    return int(profile.variables()["COOPSIM_PHANTOM_CLOCK"]) / 1000


def _name(title: str) -> str:
    """The short name of a card: `NVIDIA RTX A6000` is rtx-a6000."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"nvidia|geforce|tesla", "", title.lower())).strip("-")[:64] or "card"
