"""coopsim calibrate -o FILE: measure this machine's GPU, for `--gpu FILE`."""

import argparse
from pathlib import Path

from coopsim.base import files
from coopsim.base.progress import note
from coopsim.base.text import human
from coopsim.base.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    from coopsim import phantom
    from coopsim.calibrate.run import calibrate, others, parts_of
    from coopsim.cards import card_file

    parts = parts_of(args.parts)
    if not card_file.is_one(args.output):
        raise CoopsimError(f"{args.output}: end its name in .json, by which --gpu tells a card's file from its name")
    file = files.target(args.output)
    if args.dry_run is not None:
        variables = phantom.environment(args.dry_run)
        note("a dry run on the phantom GPU: nothing is measured, and --gpu will refuse the file")
    else:
        variables = {}
        if found := others():
            note(f"caution: processes that compute on this GPU: {found}; figures are of all of them together")
    try:
        journal = calibrate(file, parts, by=args.by, variables=variables, say=note)
    except KeyboardInterrupt:
        note(f"interrupted: what has been measured is in {args.output}.part, and the same command goes on from there")
        raise
    failed = journal.failed()
    for key, why in list(failed.items())[:3]:
        note(f"not measured: {key.strip()}: {why}")
    if len(failed) > 3:
        note(f"not measured: {len(failed) - 3} more")
    card = journal.card
    print(f"wrote {args.output}: {card['title']}, {human(card['memory_bytes'])}, {Path(file).stat().st_size >> 10} KiB")
    return 0
