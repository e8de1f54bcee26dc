"""Draws greedy.png and window.png of docs/how-it-works.md: `python docs/images/draw.py`. The same bytes each time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from coopsim.figures import save, strips
from coopsim.figures.strips import Block, Frame
from coopsim.policies import find
from coopsim.replay import replay
from coopsim.trace.synth import make
from coopsim.types import Action

HERE = Path(__file__).parent
MIB = 1 << 20
TRACE = make("synth:holes:4")  # cheap and expensive layers in turn, then a wide one, tensor 9
LABELS = {0: "input", 9: "wide"} | {k: f"{'c' if k % 2 else 'E'}{(k + 1) // 2}" for k in range(1, 9)}
KINDS = {0: "non-evictable", 9: "new"} | {k: "cheap" if k % 2 else "expensive" for k in range(1, 9)}


def greedy() -> list[Frame]:
    """DTR evicts until 3 MiB lie side by side."""
    schedule = replay(TRACE, "dtr-oneflow", 10 * MIB, steps=1)
    row = strips.rows_of_searches(schedule)[0]
    frames = []
    for k, r in enumerate(r for r in range(row) if schedule.action[r] == Action.EVICT):
        blocks = strips.blocks(schedule, r, LABELS, KINDS)
        holes = [p.bytes // MIB for p in blocks if p.kind == "free"]
        goes = LABELS[int(schedule.storage[r])]
        title = f"{k + 1}. {sum(holes)} MiB free, largest hole {max(holes)} MiB: evict {goes}"
        frames.append(Frame(title, blocks, victims=frozenset({goes})))
    return [*frames, Frame("the 3 MiB fit", strips.blocks(schedule, row + 1, LABELS, KINDS))]


def window() -> list[Frame]:
    """Coop's first search: every window that is large enough, and the one that goes."""
    frames: list[Frame] = []

    def search(memory: Any, need: int) -> list[int]:
        best, least, run = [], float("inf"), []
        everything = memory.blocks()
        drawn = [_drawn(memory, p) for p in everything]
        for block in everything:
            run = [] if block.value >= 0 and not block.can_go else [*run, block]
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


def _drawn(memory: Any, block: Any) -> Block:
    if block.value < 0:
        return Block(block.address, block.bytes, note="0")
    note = f"{memory.score(block.value):.3f}" if block.can_go else "barrier"
    kind = KINDS.get(block.value, "cheap") if block.can_go else "non-evictable"
    return Block(block.address, block.bytes, LABELS.get(block.value, ""), kind, note)


if __name__ == "__main__":
    save(strips.draw(greedy(), title="DTR: one tensor at a time"), HERE / "greedy.png")
    save(strips.draw(window(), title="Coop: one window"), HERE / "window.png")
