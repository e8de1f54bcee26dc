"""A plan in the making: decisions and copies for one iteration, as they stand, and the dry run by them."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning import selection
from coopsim.simulate.planning.cut_graph import CutGraph, new_cut
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import (
    D_COST,
    D_COUNT,
    D_OPS,
    D_RESIDENCIES,
    NEED,
    Q_COLUMNS,
    Q_LEFT,
    Q_UNTIL,
    Q_VALUE,
    T_AWAYS,
    T_STALL,
    DryRun,
    new_dry_run,
)
from coopsim.simulate.planning.program import NEVER, Program
from coopsim.simulate.planning.request import Copying
from coopsim.simulate.planning.selection import COMES, GOES, I_AFTER, I_BEFORE, I_ENDS, I_OPEN, I_VALUE, Selection


@dataclass(frozen=True)
class Saved:
    """Decisions to come back to, with the copies that go with them.

    away, count: the rows of copies that are installed, and how many there are. is_open, back, left: of each idle
    interval, whether values may be offloaded in it, and where a copy comes back and its value leaves, -1 for nowhere.
    """

    decisions: Any
    away: Any
    count: int
    is_open: Any
    back: Any
    left: Any


class Draft:
    """What a plan is made of, for a program and how its iteration begins; those who plan change it in turn.

    `target_bytes`: what may be in memory at once. first_run: only an op's first run is in place. `D`: the program,
    the decisions, and what the last dry run by them has counted. `chosen`: the values' idle intervals, with the copies
    that were chosen for them, which a dry run makes once they are installed. `graph`: room for a cut at one moment.
    """

    def __init__(
        self, program: Program, target_bytes: int, copying: Copying | None = None, *, first_run: bool = False
    ) -> None:
        self.program, self.copying, self.target_bytes = program, copying, target_bytes
        self.D: DryRun = new_dry_run(program, first_run=first_run, copying=copying)

    @cached_property
    def chosen(self) -> Selection:
        """The idle intervals."""
        return selection.selection(self.program, self.copying)

    @cached_property
    def graph(self) -> CutGraph:
        """Room for the graph of a cut."""
        return new_cut(self.program)

    @property
    def cost(self) -> int:
        """What the last dry run cost: decision cost of recomputations, and time for which ops waited for copies."""
        return int(self.D.K[D_COST])

    @property
    def stall(self) -> int:
        """For how long ops waited for copies in the last dry run, ns."""
        return int(self.D.T[T_STALL])

    @property
    def dry_runs(self) -> int:
        """How many dry runs there were."""
        return int(self.D.K[D_COUNT])

    @property
    def ops_run(self) -> int:
        """How many ops they have run, those that run again included."""
        return int(self.D.K[D_OPS])

    @property
    def own_cost(self) -> int:
        """The decision cost of the iteration itself."""
        return int(self.D.O[:, s.DECIDE].sum())

    def times_again(self) -> float:
        """How often ops that run again do so, by their cost."""
        _, residencies = self.residencies()
        V, runs = self.program.values, np.bincount(residencies[:, Q_VALUE], minlength=len(self.program.values))
        again = np.unique(V[(runs > 1) & (V[:, s.PRODUCER] >= 0), s.PRODUCER])
        return self.cost / max(int(self.program.ops[again, s.DECIDE].sum()), 1)

    def run(self) -> bool:
        """Dry-run the decisions. False: they cannot be followed."""
        return bool(dry_run(self.D))

    def exceeds(self, budget: int) -> float:
        """Sum over the ops of the bytes above the budget, in the last dry run."""
        return float(selection.exceeds(self.D, budget))

    def excess(self, budget: int) -> float:
        """The same sum, and of each op in `chosen`."""
        return float(selection.excess(self.D, self.chosen, budget))

    def fits(self, budget: int, *, below: int) -> bool:
        """Whether the last dry run is within the budget, at less than this cost."""
        return self.cost < below and self.exceeds(budget) == 0.0

    def keep_all(self) -> None:
        """Decide that every value stays as long as an op of the program will use it."""
        selection.keep_all(self.D)

    def fullest(self) -> list[int]:
        """Of each step, the op during which most bytes are in memory, in the last dry run."""
        ops_so_far = (self.D.E[:, s.KIND] == s.RUN).cumsum()
        first_of_next = ops_so_far[self.D.E[:, s.KIND] == s.END_STEP].tolist()
        return [a + int(self.D.peak[a:b].argmax()) for a, b in pairwise([0, *first_of_next])]

    def save(self) -> Saved:
        """The decisions as they stand, copies included."""
        D, chosen = self.D, self.chosen
        planned, is_open = (D.away.copy(), int(D.T[T_AWAYS])), chosen.idle[:, I_OPEN].copy()
        return Saved(D.decisions.copy(), *planned, is_open, chosen.away.copy(), chosen.left.copy())

    def restore(self, to: Saved) -> None:
        """Go back to these decisions, with their dry run."""
        D, chosen = self.D, self.chosen
        D.decisions[:], D.away[:], D.T[T_AWAYS] = to.decisions, to.away, to.count
        chosen.idle[:, I_OPEN], chosen.away[:], chosen.left[:] = to.is_open, to.back, to.left
        dry_run(D)

    def set_decisions(self, decisions: Any) -> None:
        """Replace the decisions, and dry-run them; copies stay as they are."""
        self.D.decisions[:] = decisions
        dry_run(self.D)

    def install_copies(self) -> None:
        """Write the copies that are chosen into the dry run, in the order in which they begin."""
        D, chosen = self.D, self.chosen
        idle, ends = chosen.idle, chosen.idle[:, I_ENDS]
        comes = chosen.away >= 0
        which = (comes & (ends != COMES)) | (ends == GOES), comes & (chosen.left >= 0), comes
        out, left, back = (np.flatnonzero(rows) for rows in which)
        i = np.concatenate([out, left, back])
        begin = np.concatenate([idle[out, I_AFTER] + 1, chosen.left[left], chosen.away[back]])
        what = np.repeat([s.OUT, s.LEFT, s.BACK], [len(out), len(left), len(back)])
        order = np.lexsort((idle[i, I_VALUE], idle[i, I_BEFORE], what, begin))
        D.T[T_AWAYS] = count = len(i)
        D.away[:count, [s.A_OP, s.A_WHAT, s.A_VALUE]] = np.stack([begin, what, idle[i, I_VALUE]], axis=1)[order]
        D.away[:count, s.A_START :] = 0

    def forget_copies(self) -> None:
        """Offload nothing, but for what the host has anyway, which comes when it is used."""
        chosen = self.chosen
        chosen.away[:] = np.where(chosen.idle[:, I_ENDS] == COMES, chosen.idle[:, I_BEFORE], -1)
        chosen.left[:] = -1
        self.install_copies()
        chosen.idle[:, I_OPEN] = selection.is_open(self.D.V, chosen.idle)

    def residencies(self) -> tuple[DryRun, s.Array]:
        """A dry run in which nothing stays longer than it is needed, and its residencies (rows of Q)."""
        exact, until = self.D, self.D.X[:, NEED].astype(np.int64)
        while len(exact.Q) < exact.K[D_RESIDENCIES]:  # what leaves may come again with another result of its op
            rows = np.zeros((int(exact.K[D_RESIDENCIES]), Q_COLUMNS), np.int64)
            exact = replace(exact, until=until, Q=rows)
            dry_run(exact)
        rows = exact.Q[: exact.K[D_RESIDENCIES]]
        lasts = np.flatnonzero(rows[:, Q_UNTIL] < 0)
        rows[lasts, Q_UNTIL] = rows[lasts, Q_LEFT] = NEVER
        return exact, rows
