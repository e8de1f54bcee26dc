"""coopsim phantom run --max-memory B, --baseline F: check a script's memory use against a limit or a baseline."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coopsim.run import Script


def run(args: argparse.Namespace, script: "Script") -> int:
    """Run the gate, print the verdict, and return the exit code: 0 if it passes, 1 if not."""
    from coopsim.run import gate
    from coopsim.run.gate import summary
    from coopsim.run.memory import of_card

    limit = of_card(args.gpu, args.max_memory, "--max-memory")
    baseline = None if args.baseline is None else gate.Baseline.read(args.baseline, update=args.update)
    free = args.allow_no_step
    verdict = gate.check(script, limit=limit, baseline=baseline, update=args.update, allow_no_step=free)
    if baseline and args.update and verdict.name in baseline.runs:
        baseline.write(verdict.name)
    summary.append(verdict)
    if args.json:
        found = {"passed": verdict.passed, "run": verdict.name, "failures": verdict.failures, "notes": verdict.notes}
        found["peaks"] = verdict.peaks.to_json() if verdict.peaks else None
        found["out_of_memory"] = asdict(oom) if (oom := verdict.report.out_of_memory) else None
        print(json.dumps(found, indent=2))
    else:
        print(summary.text_of(verdict))
    return 0 if verdict.passed else 1
