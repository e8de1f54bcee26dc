"""Measure the parts of a card, each in child processes, and write the card file."""

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from coopsim.base.errors import unknown
from coopsim.base.files import replacing
from coopsim.base.progress import watch
from coopsim.base.types import CoopsimError
from coopsim.calibrate import fit_prices, machine, profile
from coopsim.calibrate.journal import CalibrationJournal
from coopsim.calibrate.parts import PARTS, Part
from coopsim.cards import card_file


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
    journal = CalibrationJournal(file)
    environment = os.environ | dict(variables)
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
                    if journal.begin(entry["card"]):
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
    clocks = machine.clocks()
    fastest = clocks.get("clocks.max.sm", "")
    found: dict[str, Any] = {
        "card_version": card_file.VERSION,
        "phantom": card["phantom"],
        "card": profile.of(card, float(fastest) if fastest.isdecimal() else None),
        "measured": {
            "by": by,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "driver": machine.driver(),
            **{key: card[key] for key in ("torch", "cuda", "cudnn", "python")},
            "nvidia_smi": clocks,
        },
    }
    if rows := journal.rows("context"):
        of = {"torch": card["torch"], "cuda": card["cuda"], "driver": machine.driver()}
        found["context"] = [of | {"readings": rows}]
    if rows := journal.rows("prices"):
        found["prices"] = fit_prices.prices_of(rows, profile.described(found["card"]))
    if rows := journal.rows("workspaces"):
        found["workspaces"] = rows
    if rows := journal.rows("link"):
        found["link"] = rows[0]
    if rows := journal.rows("addresses"):
        found["addresses"] = rows[0]["rows"]
    if rows := journal.rows("host"):
        found["host_ns_per_op"] = rows[0]["host_ns_per_op"]
    return found
