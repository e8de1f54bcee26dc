"""Scripts that compile in twelve ways, beside themselves without: peaks on the phantom GPU.

    python experiments/compiled/styles.py

runs each of scripts/ as it is, and with PyTorch's TORCHDYNAMO_DISABLE=1; writes
experiments/expected/compiled-styles.csv, of which docs/compiled.md has some rows.
"""

import argparse
import csv
import sys
from pathlib import Path

from asked import ROOT, ask

from coopsim.base.types import CoopsimError

TABLE = ROOT / "experiments" / "expected" / "compiled-styles.csv"
CARD = "a100-80gb"
SCRIPTS = (
    *("model_function", "model_method", "loss", "step", "optimizer", "fullgraph"),
    *("dynamic", "cuda_graphs", "triton_kernel", "flex", "trainer", "graph_breaks"),
)
PEAKS = (
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "first_step_peak_reserved_bytes",
    "steady_peak_reserved_bytes",
    "steady_peak_allocated_bytes",
)


def rows(name: str, kept: Path) -> list[dict[str, object]]:
    """A script as it is, and without compilation."""
    script = str(Path(__file__).parent / "scripts" / f"{name}.py")
    words = ("phantom", "run", "--gpu", CARD, "--json", "--", "python", script)
    found = []
    for how in ("compiled", "eager"):
        off = {"TORCHDYNAMO_DISABLE": "1"} if how == "eager" else {}
        said = ask(kept / f"{name}.{how}.json", *words, **off)
        if said["outcome"] != "ok" or (how == "eager") != (said["compiled_graphs"] == 0):
            raise CoopsimError(f"{name}, {how}: {said['outcome']}, {said['compiled_graphs']} graphs")
        counts = {"graphs": said["compiled_graphs"], "graph_breaks": len(said["graph_breaks"])}
        found.append({"script": name, "how": how, **counts, **{key: said[key] for key in PEAKS}})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, default=ROOT / "out" / "compiled", help="folder of what was answered")
    kept = parser.parse_args().kept
    table: list[dict[str, object]] = []
    try:
        for name in SCRIPTS:
            table += rows(name, kept)
    except CoopsimError as error:
        sys.stderr.write(f"styles.py: {error}\n")
        return 2
    part = TABLE.with_name(f".{TABLE.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    part.replace(TABLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
