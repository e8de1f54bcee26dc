"""What one of 8 ranks of a Llama reserves beyond what it has allocated, by FSDP1 and FSDP2, and with what it changes.

    python experiments/ranks/reserved.py -o experiments/expected/rank_reserved.csv

Rows are written one by one; those that are in the file stay.
"""

import argparse
from pathlib import Path

import table

from coopsim.run import Script, run

CARD, RANKS, MODEL = "h100-80gb", 8, "llama-1b"
EXPANDABLE = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
AVOID = "TORCH_NCCL_AVOID_RECORD_STREAMS"
#: FSDP's version, options of sharded.py, variables of the environment.
CASES: tuple[tuple[int, str, tuple[tuple[str, str], ...]], ...] = (
    (1, "", ()),
    (1, "", (EXPANDABLE,)),
    (1, "", ((AVOID, "1"),)),
    (1, "", ((AVOID, "0"),)),
    (1, "--backward-prefetch none", ()),
    (1, "--backward-prefetch none", (EXPANDABLE,)),
    (1, "--backward-prefetch post", ()),
    (1, "--forward-prefetch", ()),
    (1, "--no-limit", ()),
    (1, "--no-limit", (EXPANDABLE,)),
    (1, "--keep", ()),
    (2, "", ()),
    (2, "", (EXPANDABLE,)),
    (2, "", ((AVOID, "0"),)),
    (2, "--forward-prefetch --async-op", ()),
    (2, "--forward-prefetch --async-op", ((AVOID, "0"),)),
    (2, "--keep", ()),
)


def main() -> None:
    """All cases that the table lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args().output
    rows: list[dict[str, object]] = [dict(row) for row in table.read(output)]
    known = {(row["fsdp"], row["options"], row["variables"]) for row in rows}
    script = Path(__file__).parent / "sharded.py"
    for version, options, variables in CASES:
        about = {"fsdp": str(version), "options": options, "variables": " ".join(f"{k}={v}" for k, v in variables)}
        if tuple(about.values()) in known:
            continue
        command = ("python", str(script), MODEL, str(version), *options.split())
        report = run(Script(command, card=CARD, world_size=RANKS, quiet=True, variables=variables))
        peaks = {key: getattr(report, key) for key in ("peak_allocated_bytes", "peak_reserved_bytes")}
        rows.append({**about, "outcome": report.outcome, **peaks})
        table.write(output, rows)


main()
