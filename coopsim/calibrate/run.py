"""Measure the parts of a card, each in child processes, and write the card file."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from coopsim.base.errors import unknown
from coopsim.base.files import replacing
from coopsim.base.progress import watch
from coopsim.base.types import CoopsimError
from coopsim.calibrate import fit_prices
from coopsim.calibrate.journal import CalibrationJournal
from coopsim.calibrate.parts import PARTS, Part
from coopsim.cards import card_file, profiles
from coopsim.phantom import Profile

#: What the card itself says, which is taken in place of what a profile has.
_READ = ("sms", "threads_per_sm", "shared_per_sm_kib", "shared_optin_kib", "l2_kib", "compute_capability")
_RATES = ("fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops")
_ASKED = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "temperature.gpu",
    "power.draw",
    "power.limit",
)
_KERNEL_DRIVER = Path("/proc/driver/nvidia/version")


def parts_of(names: str | None) -> list[Part]:
    """Return the parts with these comma-separated names, all if None. Raises CoopsimError for others."""
    if names is None:
        return list(PARTS.values())
    for name in (asked := [name.strip() for name in names.split(",")]):
        if name not in PARTS:
            raise unknown("part", name, PARTS)
    return [part for part in PARTS.values() if part.name in asked]


def calibrate(
    file: Path, parts: Sequence[Part], *, by: str, variables: Mapping[str, str], say: Callable[[str], None]
) -> CalibrationJournal:
    """Measure what the journal beside `file` lacks of these parts, write the card file, and return the journal.

    variables: of the child processes, beside ours. `say` is called with lines for the user. Raises CoopsimError where
    PyTorch finds no GPU, and if a child process ends without having measured.
    """
    environment = os.environ | dict(variables)
    with CalibrationJournal(file) as journal:
        for part in parts:
            _measure(part, journal, environment, say)
        with replacing(file) as path:
            path.write_text(card_file.text(_content(journal, by)), encoding="utf-8")
        journal.remove()
    return journal


def _measure(
    part: Part, journal: CalibrationJournal, environment: Mapping[str, str], say: Callable[[str], None]
) -> None:
    size = part.size()
    with watch(part.what) as report:
        report(len(journal.done(part.name)), size)
        while len(journal.done(part.name)) < size or not journal.card:
            before = len(journal.done(part.name))
            for entry in _lines(part, journal.done(part.name), environment):
                if "error" in entry:
                    raise CoopsimError(_no_gpu(entry["error"]))
                if "card" in entry:
                    if journal.begin_card(entry["card"]):
                        say("another card, or other versions: what was measured before is measured again")
                        break  # with this card's list of what is left
                    continue
                journal.add(part.name, entry)
                report(len(journal.done(part.name)), size)
            else:
                if len(journal.done(part.name)) == before:
                    raise CoopsimError(f"{part.what}: its process ended without a measurement")


def _lines(part: Part, done: list[str], environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield what a child process says of the part, as it comes. It is ended with the iterator."""
    with tempfile.TemporaryFile() as said, _child(part, environment, said) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(done))
            child.stdin.close()
        except BrokenPipeError:
            pass
        yield from map(json.loads, child.stdout)
        if child.wait():
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
            raise CoopsimError(f"{part.what}: {last[0]}")


@contextmanager
def _child(part: Part, environment: Mapping[str, str], said: IO[bytes]) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "coopsim.calibrate.measure", part.name]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=said, text=True)  # noqa: S603
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


def _no_gpu(why: str) -> str:
    return f"nothing to measure: {why}; for a dry run, name a card to imitate: --dry-run rtx-3060"


def _content(journal: CalibrationJournal, by: str) -> dict[str, Any]:
    """Return the card file: which card, measured by whom, when and with what, and each part that has rows."""
    card = journal.card
    said = clocks()
    fastest = said.get("clocks.max.sm", "")
    found: dict[str, Any] = {
        "card_version": card_file.VERSION,
        "phantom": card["phantom"],
        "card": card_of(card, float(fastest) if fastest.isdecimal() else None),
        "measured": {
            "by": by,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "driver": driver(),
            **{key: card[key] for key in ("torch", "cuda", "cudnn", "python")},
            "nvidia_smi": said,
        },
    }
    if rows := journal.rows("context"):
        of = {"torch": card["torch"], "cuda": card["cuda"], "driver": driver()}
        found["context"] = [of | {"readings": rows}]
    if rows := journal.rows("prices"):
        found["prices"] = fit_prices.prices_of(rows, described(found["card"]))
    if rows := journal.rows("workspaces"):
        found["workspaces"] = rows
    if rows := journal.rows("link"):
        found["link"] = rows[0]
    if rows := journal.rows("addresses"):
        found["addresses"] = rows[0]["rows"]
    if rows := journal.rows("host"):
        found["host_ns_per_op"] = rows[0]["host_ns_per_op"]
    return found


def card_of(card: dict[str, Any], max_mhz: float | None) -> dict[str, Any]:
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


def _nvidia_smi(*asked: str) -> str:
    """What nvidia-smi prints of the first GPU, "" where there is none."""
    if not shutil.which("nvidia-smi"):
        return ""
    command = ["nvidia-smi", "-i", "0", *asked, "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


def clocks() -> dict[str, str]:
    """Return what nvidia-smi says of the first GPU now, clocks in MHz; {} where there is no nvidia-smi."""
    values = [value.strip() for value in _nvidia_smi(f"--query-gpu={','.join(_ASKED)}").split(",")]
    return dict(zip(_ASKED, values, strict=True)) if len(values) == len(_ASKED) else {}


def driver() -> str:
    """Return the version of NVIDIA's driver, "" where there is none."""
    said = clocks().get("driver_version", "")
    if not said and _KERNEL_DRIVER.exists():
        found = re.search(r"\d+\.\d+(\.\d+)?", _KERNEL_DRIVER.read_text(encoding="utf-8"))
        said = found[0] if found else ""
    return said


def others() -> int:
    """Return how many processes compute on the first GPU; 0 where that is not known."""
    said = _nvidia_smi("--query-compute-apps=pid")
    return sum(line.strip().isdecimal() for line in said.splitlines())
