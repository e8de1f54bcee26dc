"""coopsim import simrd LOG -o T: make a trace of another tool's log."""

import argparse

from coopsim.cli.common import note


def run(args: argparse.Namespace) -> int:
    from coopsim.simrd import import_log
    from coopsim.trace import save

    trace = import_log(args.log)
    save(trace, args.output)
    note(f"wrote {args.output}: {trace.n_ops} ops, {trace.n_storages} tensors of {trace.label}")
    return 0
