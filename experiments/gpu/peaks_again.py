"""Run the scripts of a folder's peaks.csv on today's phantom, with the PyTorch that is installed.

    python -m experiments.gpu.peaks_again FOLDER [NAME …]

Writes what the phantom says of each into peaks.csv, and names those that are not equal to the card. Scripts that are
not in the repository, or whose packages are not installed, keep their rows.
"""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from coopsim.base import files
from experiments.corpus.run import Script, measure
from experiments.gpu import peaks

_ROOT = Path(__file__).parents[2]
_CARD, _SECONDS = "h100-80gb", 120


def again(rows: Iterable[peaks.Row]) -> Iterator[peaks.Row]:
    """The rows that can be run here, with today's figures of the phantom."""
    known = {row["name"]: row for row in rows if (_ROOT / row["script"]).exists()}
    scripts = [Script(name, _ROOT / row["script"], tuple(row["arguments"].split())) for name, row in known.items()]
    for found in measure([one for one in scripts if not one.missing], _CARD, _SECONDS, plain=False):
        said = {f"phantom_{kind}": str(found.get(kind, "")) for kind in peaks.KINDS}
        failed = "" if found["verdict"] == "ok" else f"{found['verdict']}: {found.get('note', '')}"
        yield known[str(found["script"])] | said | {"phantom_said": failed}


def main(folder: Path, names: list[str]) -> None:
    file = folder / peaks.FILE
    for new in again([row for row in peaks.load(folder) if not names or row["name"] in names]):
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        columns = list(rows[0])
        kept = [{c: new[c] for c in columns} if row["name"] == new["name"] else row for row in rows]
        with files.replacing(file) as part, part.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)
        off = [int(new[f"phantom_{kind}"] or 0) - int(new[kind]) for kind in peaks.KINDS]
        print(new["name"], "equal" if peaks.equal(new) else f"{off} {new['causes']} {new['phantom_said']}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
