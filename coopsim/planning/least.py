"""The fewest bytes in which an iteration could run: where these are more than there are, no plan is looked for."""

import numpy as np

from coopsim.kernel import state as s
from coopsim.planning.program import Program
from coopsim.planning.request import Copying


def least_bytes(program: Program, copying: Copying | None) -> int:
    """Most bytes while an op of the program runs, if nothing is there but what it needs and what cannot leave.

    What cannot leave is what may neither be made again nor be offloaded. A lower bound for any plan: a new version that
    may take over the place of the older one counts as nothing.
    """
    V, O = program.values, program.ops  # noqa: E741
    stays = V[:, s.EVICTABLE] == 0
    if copying is not None:
        stays &= copying.rows[:, s.OFFLOADABLE] == 0
    here = np.zeros(len(V), np.bool_)
    here[program.initial] = stays[program.initial]
    held = most = int(V[here, s.BYTES].sum())
    for kind, at in program.events.tolist():
        if kind == s.RUN:
            ins, outs = program.ins[O[at, s.INS] : O[at + 1, s.INS]], program.outs[O[at, s.OUTS] : O[at, s.TEMPS]]
            inside = program.outs[O[at, s.TEMPS] : O[at + 1, s.OUTS]]
            moved = outs[V[outs, s.IN_PLACE] == 1]
            made = outs[V[outs, s.IN_PLACE] == 0]
            needed = (ins[~here[ins]], made, inside)
            most = max(most, held + sum(int(V[values, s.BYTES].sum()) for values in needed))
            gone, new = V[moved, s.OLDER], outs[stays[outs]]
            held += int(V[new, s.BYTES].sum()) - int(V[gone[here[gone]], s.BYTES].sum())
            here[gone], here[new] = False, True
        elif kind in (s.DROP, s.GONE) and here[at]:
            here[at] = False
            held -= int(V[at, s.BYTES])
    return most
