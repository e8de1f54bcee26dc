"""coopsim import torch-snapshot F -o T: make a trace of another tool's file."""

import argparse
from typing import Any

from coopsim.base.progress import note


def run(args: argparse.Namespace) -> int:
    from coopsim.base import files
    from coopsim.trace import save

    files.target(args.output)
    trace = _snapshot(args)
    save(trace, args.output)
    note(f"wrote {args.output}: {trace.n_ops} ops, {trace.n_storages} storages of {trace.label}")
    return 0


def _snapshot(args: argparse.Namespace) -> Any:
    from coopsim.fitting.advise.selfcheck import best
    from coopsim.trace.snapshot import read, require_history
    from coopsim.trace.snapshot.requests import device_bytes, empties, of_snapshot, to_trace

    snapshot = read(args.log, device=args.device)
    require_history(snapshot)
    total = device_bytes(snapshot)
    note(best(snapshot, of_snapshot(snapshot, total_bytes=total), total_bytes=total).text())
    return to_trace(snapshot, empties(snapshot, total_bytes=total))
