"""How much longer the searches of a policy of one's own take than Coop's: in Python, over arrays, compiled.

`python benchmarks/own_policies.py` replays BERT-Large with 70 % of its peak, and prints the time of all searches of a
step and of one search, each divided by Coop's; the least of several replays. The three decide the same, so they search
as often; Coop, which makes room for more than it was asked for, searches less. `--grid` also sweeps the eight models.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import coopsim
from coopsim.study.sweep import Grid, Processes, sweep

WALL = 1 << 50  # more bytes than there are
TRACES = ("bert-large", "bilstm", "gpt-2", "inception-v3", "resnet-50", "spos", "swin-t", "unet")


class Blocks(coopsim.EvictionPolicy):
    """The run of neighbours that reaches the need with the fewest bytes to spare, block by block."""

    placement = "two_ended"
    in_place = "recomputable"

    def choose(self, memory, need):
        best, least = [], None
        run, total = [], 0
        for block in memory.blocks():
            if block.value >= 0 and not block.can_go:
                run, total = [], 0
                continue
            run.append(block)
            total += block.bytes
            while total - run[0].bytes >= need:
                total -= run.pop(0).bytes
            if total >= need and (least is None or total < least):
                best, least = list(run), total
        return [block.value for block in best if block.value >= 0]


class Arrays(coopsim.EvictionPolicy):
    """The same over arrays: what cannot go is a wall, and windows are differences of a sum."""

    placement = "two_ended"
    in_place = "recomputable"

    def choose(self, memory, need):
        table = memory.table()
        stays = (table.value >= 0) & ~table.can_go
        ends = np.cumsum(np.concatenate(([0, WALL], np.where(stays, WALL, table.bytes))))
        first = np.searchsorted(ends, ends[2:] - need, side="right") - 1
        total = ends[2:] - ends[first]
        last = int(np.argmin(total))
        run = table.value[first[last] - 1 : last + 1]
        return run[run >= 0] if total[last] < WALL else []


class Compiled(coopsim.EvictionPolicy):
    """The same, compiled."""

    placement = "two_ended"
    in_place = "recomputable"

    @coopsim.compiled
    def choose(bytes, value, can_go, need, out):  # noqa: A002, N805
        first, last, least = 0, -1, 0
        start, total = 0, 0
        for k in range(len(value)):
            if value[k] >= 0 and not can_go[k]:
                start, total = k + 1, 0
                continue
            total += bytes[k]
            while total - bytes[start] >= need:
                total -= bytes[start]
                start += 1
            if total >= need and (last < 0 or total < least):
                first, last, least = start, k, total
        n = 0
        for k in range(first, last + 1):
            if value[k] >= 0:
                out[n] = value[k]
                n += 1
        return n


def main() -> None:
    """Print the ratios."""
    trace = coopsim.load("bert-large")
    of: dict[str, tuple[float, int]] = {}
    for _ in range(7):  # in turn, so that all see the same machine
        for policy in ("coop", Arrays, Compiled, *((Blocks,) if "Blocks" not in of else ())):
            schedule = coopsim.replay(trace, policy, "70%", steps=2)
            name, ns = schedule.header["policy"], schedule.header["search_ns"] / 2
            of[name] = min(of.get(name, (np.inf, 0)), (ns, schedule.header["searches"] // 2))
    for name, (ns, searches) in of.items():
        coop, of_coop = of["coop"]
        print(
            f"{name:10}{searches:5} searches a step, {ns / 1e6:8.2f} ms, {ns / coop:7.1f} times Coop; "
            f"one: {ns / searches / (coop / of_coop):6.1f} times"
        )
    if "--grid" in sys.argv:
        budgets = [f"{share}%" for share in range(90, 29, -10)]
        for policy in (Arrays, Compiled):
            grid = Grid(TRACES, (policy,), budgets=budgets, band=11)
            with TemporaryDirectory() as folder:
                began = time.perf_counter()
                sweep(grid, Path(folder) / "sweep.parquet", Processes(2))
                took = time.perf_counter() - began
            print(f"{policy.__name__}: {len(grid.points())} replays of ten steps in {took:.0f} s")


if __name__ == "__main__":
    main()
