"""`python benchmarks/recorder.py`: processor time of a script under `coopsim phantom run`, and alone on the stand-in.

A 12-layer transformer of width 256, for 60 steps and for one: what watching costs at the start, and per step. Each is
the least of `--runs` (3); the first run of all, which compiles, does not count. A table in Markdown.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from coopsim import phantom

CARD = "a100-80gb"
SCRIPT = """
import sys
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
body = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
model = nn.Sequential(nn.Linear(64, 256), body, nn.Linear(256, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(16, 128, 64, device="cuda")
y = torch.zeros(16 * 128, dtype=torch.long, device="cuda")
for _ in range(int(sys.argv[1])):
    nn.functional.cross_entropy(model(x).view(-1, 10), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    plain = dict(os.environ) | phantom.environment(CARD)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        python = [sys.executable, str(script)]
        watched = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--", "python", str(script)]

        def least(command: list[str], environment: dict[str, str], steps: int) -> float:
            return min(seconds([*command, str(steps)], environment) for _ in range(args.runs))

        ways: dict[str, Callable[[int], float]] = {
            "alone": lambda steps: least(python, plain, steps),
            "watched": lambda steps: least(watched, dict(os.environ), steps),
        }
        seconds([*watched, "1"], dict(os.environ))
        found = {name: (way(1), way(args.steps)) for name, way in ways.items()}
    print(f"| | 1 step, s | {args.steps} steps, s | per step, ms |\n|---|---|---|---|")
    for name, (one, all_) in found.items():
        print(f"| {name} | {one:.2f} | {all_:.2f} | {1000 * (all_ - one) / (args.steps - 1):.1f} |")
    (one, all_), (one_watched, all_watched) = found["alone"], found["watched"]
    print(f"\nratio over {args.steps} steps {all_watched / all_:.2f}; start {one_watched - one:+.2f} s")


if __name__ == "__main__":
    main()
