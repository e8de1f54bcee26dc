"""coopsim capture MODEL|FILE.py:FUNCTION -o T: record a steady training step."""

import argparse
from pathlib import Path

from coopsim.progress import note


def run(args: argparse.Namespace) -> int:
    from coopsim.capture import capture

    capture(
        args.target,
        Path(args.output),
        card=args.gpu,
        precision=args.precision,
        batch=args.batch,
        optimizer=args.optimizer,
        amp=args.amp,
        attention=args.attention,
        steps=args.steps,
        warmup=args.warmup,
        device=args.device,
        cost_from=Path(args.cost_from) if args.cost_from else None,
        temporaries_from=Path(args.temporaries_from) if args.temporaries_from else None,
        passes=args.passes,
        progress=note,
    )
    note(f"wrote {args.output}")
    return 0
