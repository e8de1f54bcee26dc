"""Peaks of scripts on a card beside those that `coopsim phantom run` gives, and why some differ.

peaks.csv of a folder of results has a row per script, or peaks-SET-card.json and peaks-SET-phantom.json have; and
peaks-causes.csv has a cause for each that is not equal to the byte in requested, allocated and reserved memory.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from experiments.gpu import names
from experiments.gpu.markdown import table

FILE, WHY = "peaks.csv", "peaks-causes.csv"
KINDS = ("requested", "allocated", "reserved")
_MIB = 2**20

#: Causes of differences, and what they mean.
CAUSES = {
    "cudnn": "cuDNN chooses workspaces of convolutions by shape; the phantom GPU uses a rule",
    "rnn": "cuDNN's recurrent layers take a workspace; the phantom GPU uses a rule",
    "addresses": "up to torch 2.11 equal holes are chosen by address; on a GPU libraries take some, too (inferred)",
    "data": "sizes depend on data, which the phantom GPU does not have",
}

Row = dict[str, str]


def load(folder: Path) -> list[Row]:
    """The rows of a folder, each with its `causes`, "" where there are none."""
    rows: list[Row] = []
    if (folder / FILE).exists():
        with (folder / FILE).open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    for which in ("scripts", "compiled"):
        rows += _joined(*(folder / names.peaks(which, phantom=phantom) for phantom in (False, True)))
    why: dict[str, str] = {}
    if (folder / WHY).exists():
        with (folder / WHY).open(newline="", encoding="utf-8") as file:
            why = {row["name"]: row["causes"] for row in csv.DictReader(file)}
    return [row | {"causes": why.get(row["name"], "")} for row in rows]


def _joined(card: Path, phantom: Path) -> Iterator[Row]:
    """Rows of the scripts that were measured on both, as peaks.csv has them."""
    if not (card.exists() and phantom.exists()):
        return
    ours, theirs = ({r["name"]: r for r in json.loads(file.read_text())["rows"]} for file in (card, phantom))
    for name in ours.keys() & theirs.keys():
        if not ours[name]["failed"]:
            row = {key: ours[name][key] for key in ("name", "script", "arguments", *KINDS)}
            row |= {f"phantom_{kind}": theirs[name].get(kind, "") for kind in KINDS}
            yield {key: str(value) for key, value in row.items()}


def equal(row: Row) -> bool:
    """Are all three the phantom's, to the byte?"""
    return all(row[kind] == row[f"phantom_{kind}"] for kind in KINDS)


def by_cause(rows: list[Row]) -> list[str]:
    """The table: a row per combination of causes, how many scripts, and by how much the phantom's reserve differs."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if not equal(row):
            found.setdefault(row["causes"], []).append(row)
    lines = []
    for causes, members in sorted(found.items(), key=lambda pair: -len(pair[1])):
        off = [int(r["phantom_reserved"]) - int(r["reserved"]) for r in members if r["phantom_reserved"]]
        size = "-" if not off else f"{min(off) / _MIB:+.0f}" + (f" to {max(off) / _MIB:+.0f}" * (len(off) > 1))
        text = "; ".join(CAUSES[cause] for cause in causes.split()) or "not known"
        lines.append((text, len(members), size, ", ".join(f"`{r['name']}`" for r in members)))
    return table(("cause", "scripts", "MiB reserved, phantom GPU less GPU", "which"), lines)
