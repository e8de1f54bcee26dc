"""Draws greedy.png and window.png of docs/how-it-works.md: `python docs/images/draw.py`. The same bytes each time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from coopsim.figures import save, strips
from coopsim.figures.strips import Frame, Piece
from coopsim.policies import find
from coopsim.replay import replay
from coopsim.trace.synth import make
from coopsim.types import Action

HERE = Path(__file__).parent
MIB = 1 << 20
TRACE = make("synth:holes:4")  # cheap and dear layers in turn, then a wide one, tensor 9
LABELS = {0: "input", 9: "wide"} | {k: f"{'c' if k % 2 else 'D'}{(k + 1) // 2}" for k in range(1, 9)}
KINDS = {0: "fixed", 9: "new"} | {k: "cheap" if k % 2 else "dear" for k in range(1, 9)}


def greedy() -> list[Frame]:
    """DTR evicts until 3 MiB lie side by side."""
    schedule = replay(TRACE, "dtr-oneflow", 10 * MIB, steps=1)
    row = strips.rows_of_searches(schedule)[0]
    frames = []
    for k, r in enumerate(r for r in range(row) if schedule.action[r] == Action.EVICT):
        pieces = strips.pieces(schedule, r, LABELS, KINDS)
        holes = [p.bytes // MIB for p in pieces if p.kind == "free"]
        goes = LABELS[int(schedule.storage[r])]
        title = f"{k + 1}. {sum(holes)} MiB free, largest hole {max(holes)} MiB: evict {goes}"
        frames.append(Frame(title, pieces, victims=frozenset({goes})))
    return [*frames, Frame("the 3 MiB fit", strips.pieces(schedule, row + 1, LABELS, KINDS))]


def window() -> list[Frame]:
    """Coop's first search: every window that is large enough, and the one that goes."""
    frames: list[Frame] = []

    def search(memory: Any, need: int) -> list[int]:
        best, least, run = [], float("inf"), []
        everything = memory.blocks()
        drawn = [_drawn(memory, p) for p in everything]
        for piece in everything:
            run = [] if piece.value >= 0 and not piece.can_go else [*run, piece]
            while run and sum(p.bytes for p in run[1:]) >= need:
                run = run[1:]
            if sum(p.bytes for p in run) < need:
                continue
            cost = sum(memory.score(p.value) for p in run if p.value >= 0)
            around = run[0].address, run[-1].address + run[-1].bytes
            if len(frames) < 5:
                frames.append(Frame(f"window with the sum {cost:.3f}", drawn, window=around))
            if cost < least:
                best, least = run, cost
        if len(frames) == 5:
            around = best[0].address, best[-1].address + best[-1].bytes
            gone = frozenset(LABELS[p.value] for p in best if p.value >= 0)
            frames.append(Frame(f"the cheapest goes: {least:.3f}", drawn, window=around, victims=gone))
        return [p.value for p in best if p.value >= 0]

    policy = replace(find("coop:placement=low"), name="coop", choose=search)
    replay(TRACE, policy, 10 * MIB, steps=1)
    return frames


def _drawn(memory: Any, piece: Any) -> Piece:
    if piece.value < 0:
        return Piece(piece.address, piece.bytes, note="0")
    note = f"{memory.score(piece.value):.3f}" if piece.can_go else "stays"
    return Piece(piece.address, piece.bytes, LABELS.get(piece.value, ""), KINDS.get(piece.value, "cheap"), note)


if __name__ == "__main__":
    save(strips.draw(greedy(), title="DTR: one tensor at a time"), HERE / "greedy.png")
    save(strips.draw(window(), title="Coop: one window"), HERE / "window.png")
