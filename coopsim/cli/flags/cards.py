"""The flags of the verb that measures a card."""

import argparse


def calibrate(p: argparse.ArgumentParser) -> None:
    """Flags of `calibrate`."""
    p.add_argument("-o", "--output", metavar="FILE.json", required=True, help="card file to write, for --gpu FILE.json")
    p.add_argument(
        "--parts",
        metavar="A,B",
        help="measure these only, of context, link, host, addresses, prices, workspaces (default: all)",
    )
    p.add_argument("--by", metavar="NAME", default="unnamed", help="who measures, as `coopsim list hardware` is to say")
    p.add_argument(
        "--dry-run", metavar="CARD", help="imitate this card on the phantom GPU; --gpu refuses what that gives"
    )
