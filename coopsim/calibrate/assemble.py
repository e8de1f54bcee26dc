"""Make the card file of what has been measured."""

import datetime
from typing import Any

from coopsim.calibrate import machine, profile, table
from coopsim.calibrate.journal import Journal
from coopsim.phantom import card_file


def content(journal: Journal, by: str) -> dict[str, Any]:
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
        found["prices"] = table.of(rows, profile.described(found["card"]))
    if rows := journal.rows("workspaces"):
        found["workspaces"] = rows
    if rows := journal.rows("link"):
        found["link"] = rows[0]
    if rows := journal.rows("addresses"):
        found["addresses"] = rows[0]["rows"]
    if rows := journal.rows("host"):
        found["host_ns_per_op"] = rows[0]["host_ns_per_op"]
    return found
