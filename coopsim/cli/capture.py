"""coopsim capture MODEL|FILE.py:FUNCTION -o T: record a steady training step."""

import argparse

from coopsim.base.capture_options import VERB, CaptureOptions
from coopsim.base.option import given
from coopsim.base.progress import note


def run(args: argparse.Namespace) -> int:
    from coopsim.record.capture import Job, capture

    job = Job(args.target, args.output, card=args.gpu, **given(CaptureOptions, args, VERB))
    capture(job, note)
    note(f"wrote {args.output}")
    return 0
