"""What the real allocator answered, committed: `python -m tests.study.oracle.goldens` asks all versions again and
writes it.

goldens.json.xz holds request streams with their answers, and settings strings with the versions that refuse them.
Tests read it, so that they need no torch.
"""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from coopsim.study.oracle import VERSIONS, Oracle, oracle
from tests.study.oracle.compare import plain
from tests.study.oracle.confs import draw_conf
from tests.study.oracle.fuzz import is_newer
from tests.study.oracle.pools import draw_with_pools
from tests.study.oracle.streams import CLASSES, Stream, draw

FILE = Path(__file__).parent / "goldens.json.xz"
LENGTHS = (150, 400)
POOLS_LENGTH = 500
CONFS = 400


def load() -> dict[str, Any]:
    """`streams`: name, conf, total, ops, answers (lists of versions, lines). `confs`: text, answers, lists too."""
    with lzma.open(FILE, "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _answers(stream: Stream, oracles: list[Oracle]) -> list[list[list[str]]]:
    """Versions that answer alike, and what."""
    found: dict[tuple[str, ...], list[str]] = {}
    for o in oracles:
        found.setdefault(tuple(plain(o.ask(stream.conf, stream.total, stream.ops))), []).append(o.version)
    return [[versions, list(lines)] for lines, versions in found.items()]


def main() -> None:
    oracles = [oracle(v) for v in VERSIONS]
    streams = []
    for name, (_, since) in CLASSES.items():
        for n in (1, 3):
            for length in LENGTHS:
                stream = draw(name, "golden", length, n)
                asked = [o for o in oracles if is_newer(o.version, since)]
                label = f"{name}-{'one' if n == 1 else 'several'}-{length}"
                streams.append({"name": label, **stream.case(), "answers": _answers(stream, asked)})
        stream = draw_with_pools(name, "golden", POOLS_LENGTH, 3)
        asked = [o for o in oracles if is_newer(o.version, since)]
        streams.append({"name": f"{name}-pools-{POOLS_LENGTH}", **stream.case(), "answers": _answers(stream, asked)})
    confs = []
    for k in range(CONFS):
        stream = draw_conf(f"golden {k}")
        answers = [[versions, lines[-1:]] for versions, lines in _answers(stream, oracles)]
        confs.append({"conf": stream.conf, "answers": answers})
    with lzma.open(FILE, "wt", preset=9) as file:
        json.dump({"streams": streams, "confs": confs}, file, separators=(",", ":"))
    print(f"{len(streams)} streams, {len(confs)} settings, {FILE.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
