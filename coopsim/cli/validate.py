"""coopsim validate S: what the judge says of a schedule. Exit code 1 if it finds a fault."""

import argparse
import json

from coopsim.cli.common import trace_of
from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    from coopsim.schedule import load
    from coopsim.validate import validate

    schedule = load(args.schedule)
    if schedule.header.get("semantics", "general") != "general":
        rules = schedule.header["semantics"]
        raise CoopsimError(f"{args.schedule} follows the rules of {rules}; the judge knows only ours")
    faults = validate(schedule, trace_of(schedule, args.trace, args.schedule))
    if args.json:
        found = [{"reason": str(f.reason), "seq": f.seq, "message": f.message} for f in faults]
        print(json.dumps({"schedule": args.schedule, "sound": not faults, "faults": found}, indent=1))
    elif faults:
        print("\n".join(f"row {f.seq}: {f.reason}: {f.message}" for f in faults))
    else:
        print(f"sound: {len(schedule)} actions checked")
    return 1 if faults else 0
