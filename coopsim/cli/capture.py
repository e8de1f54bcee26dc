"""coopsim capture MODEL|FILE.py:FUNCTION -o T: record a steady training step."""

import argparse

from coopsim.base.progress import note


def run(args: argparse.Namespace) -> int:
    from coopsim.record.capture import Job, capture

    job = Job(
        args.target,
        args.output,
        card=args.gpu,
        precision=args.precision,
        batch=args.batch,
        optimizer=args.optimizer,
        amp=args.amp,
        attention=args.attention,
        gradients=args.gradients,
        steps=args.steps,
        warmup=args.warmup,
        device=args.device,
        passes=args.passes,
        masks=args.masks,
        workspaces=args.workspaces,
        limit=args.limit,
        name=args.name,
    )
    capture(job, note)
    note(f"wrote {args.output}")
    return 0
