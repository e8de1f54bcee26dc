"""Run one rank of each model in worlds of many sizes: peaks, and what of them the shards explain.

    python experiments/ranks/run.py -o experiments/expected/ranks.csv

Time and host memory of each run go to stderr.
"""

import argparse
import csv
import os
import resource
import sys
import time
from pathlib import Path

from models import MODELS, STATE_BYTES

from coopsim.run import Script, run

CARD = "h100-80gb"
WORLDS = (8, 16, 32, 64, 128)
#: Some weights have rows that are no multiple of the ranks here, so gathered layers are padded: no hand computation.
LARGE = 1024
COLUMNS = ("model", "world_size", "shard_numbers", "state_bytes", "peak_requested_bytes", "rest_bytes")
PEAKS = ("peak_allocated_bytes", "peak_reserved_bytes")


def row(name: str, world: int) -> dict[str, object]:
    """One run. `rest_bytes` is what the shards' state leaves of the requested peak: the same in all of WORLDS."""
    begin, before = time.monotonic(), os.times()
    train = Path(__file__).parent / "train.py"
    report = run(Script(("python", str(train), name), card=CARD, world_size=world, quiet=True))
    after, host = os.times(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    wall = time.monotonic() - begin
    said = f"{wall:.0f} s, {processor:.0f} s processor; host at most {host / 2**20:.2f} GiB so far"
    print(f"{name}, {world} ranks: {said}", file=sys.stderr, flush=True)
    shard = MODELS[name].shard(world)
    return {
        "model": name,
        "world_size": world,
        "shard_numbers": shard,
        "state_bytes": STATE_BYTES * shard,
        "peak_requested_bytes": report.peak_requested_bytes,
        "rest_bytes": report.peak_requested_bytes - STATE_BYTES * shard,
        **{key: getattr(report, key) for key in PEAKS},
    }


def main() -> None:
    """All models in all worlds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args().output
    rows = [row(name, world) for name in MODELS for world in (*WORLDS, LARGE)]
    part = output.with_name(f".{output.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, (*COLUMNS, *PEAKS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(output)


main()
