"""The one fitted number: with which longest batch does the row of plain LoRA come out as measured?

    python experiments/peft/longest.py [--data DIR] [FROM TO]

Runs that row with each number of tokens (default: 690 to 704), and prints what is predicted; half a minute each.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import lengths
import rows
from page import FITTED

from coopsim.base.types import CoopsimError

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data", metavar="DIR")
    parser.add_argument("span", nargs="*", type=int, metavar="TOKENS", default=[690, 704])
    args = parser.parse_args()
    [row] = [r for r in rows.read(args.data) if r.experiment == FITTED]
    for longest in range(args.span[0], args.span[-1] + 1):
        with tempfile.TemporaryDirectory() as scratch:
            result = Path(scratch) / "result.json"
            steps = [str(n) for n in lengths.sequence(longest)]
            command = [sys.executable, str(HERE / "language.py"), str(row.folder), str(result), *steps]
            phantom = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", rows.CARD, "--", *command]
            done = subprocess.run(phantom, capture_output=True, text=True)  # noqa: S603 our own script
            if done.returncode:
                raise CoopsimError((done.stderr.strip().splitlines() or ["no message"])[-1])
            found = json.loads(result.read_text(encoding="utf-8"))["max_reserved_bytes"]
        print(f"{longest}: {found} bytes, {100 * (found / row.reserved - 1):+.2f} %", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CoopsimError as e:
        sys.stderr.write(f"longest.py: {e}\n")
        sys.exit(2)
