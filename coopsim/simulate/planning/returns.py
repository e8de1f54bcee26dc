"""What comes back at the end of an idle interval if its value leaves it: what that costs, and what room it takes.

An op that makes a value again needs its inputs. Of those that are not there, what has no use left is made again for
this alone, and costs its op. What would have come back for a use of its own comes earlier, for the same cost, and takes
room until then: so it is with all of a segment once the value between it and the next has left, too.
"""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run_state import D_STAMP, DryRun, ProgramArrays
from coopsim.simulate.planning.ranges import sum_up_to
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_OPEN, I_VALUE, Selection

_FAR = 256  # ops: what needs more to come back stays; results of one op that are looked at
_USERS = 16


@kernel
def weigh(D: DryRun, chosen: Selection, i: int, to: int) -> None:
    """Estimate cost, gain and score of decision `to` for interval i, all else as decided; infinite: not to be made."""
    chosen.score[i] = np.inf
    first = begin(D, chosen, i)
    if first < 0 or chosen.share[i] == 0.0 or chosen.over[chosen.idle[i, I_BEFORE]] == chosen.over[first]:
        return
    when = wanted(D, chosen, i, to)
    if chosen.over[when] == chosen.over[first]:
        return
    gain = gone(chosen, first, when, D.V[chosen.idle[i, I_VALUE], s.BYTES])
    if follow(D, chosen, i, when, gain, False) >= 0:
        gain -= chosen.early[i]
        chosen.gain[i] = gain * chosen.share[i]
        chosen.estimate[i] *= float(chosen.times[i])
        chosen.score[i] = chosen.estimate[i] / chosen.gain[i]


@inlined
def cost_to_bring_back(D: DryRun, chosen: Selection, i: int) -> float:
    """The cost of ops that run again just for the value at the end of interval i, all else as decided; the first _FAR.

    What has a use left comes back for that anyway, and counts as nothing: that suffices where a dry run confirms each.
    """
    follow(D, chosen, i, chosen.idle[i, I_BEFORE], np.inf, True)
    return chosen.estimate[i]


@inlined
def gone(chosen: Selection, first: int, last: int, nbytes: int) -> float:
    """The excess that goes if so many bytes are not there from op `first` until op `last`."""
    return float(sum_up_to(chosen.ranges, max(first, chosen.span[0]), min(last, chosen.span[1]), nbytes))


@inlined
def begin(D: DryRun, chosen: Selection, i: int) -> int:
    """The op from which the value would be gone: it stays, or has come back for others; -1: it is gone already."""
    first = -1
    if chosen.idle[i, I_OPEN]:
        if D.decisions[i] == STAY:
            first = chosen.idle[i, I_AFTER] + 1
        elif D.decisions[i] == LEAVE_ONCE and 0 <= chosen.back[i] < chosen.idle[i, I_BEFORE]:
            first = chosen.back[i]
    return first


@inlined
def wanted(D: DryRun, chosen: Selection, i: int, to: int) -> int:
    """The op for which the value comes back to stay: the next to use it, or one for which its results come back before.

    If it leaves again each time, chosen.times[i] is how often it comes. Of its uses the last _USERS are looked at.
    """
    v, after, when = chosen.idle[i, I_VALUE], chosen.idle[i, I_AFTER], chosen.idle[i, I_BEFORE]
    chosen.times[i] = 1
    if D.decisions[i] == STAY:
        end = current(D, v, after + 1)
        for at in range(max(D.V[v, s.USES], end - _USERS), end):
            user = D.uses[at]
            for k in range(D.O[user, s.OUTS], min(D.O[user, s.TEMPS], D.O[user, s.OUTS] + _FAR)):
                w = D.outs[k]
                h = w + current(D, w, after + 1)
                while h <= w + D.V[w, s.USES_END] and chosen.idle[h, I_AFTER] < when:
                    if D.decisions[h] != STAY and after < chosen.back[h] < when:
                        if to == LEAVE:
                            chosen.times[i] += 1
                        else:
                            when = chosen.back[h]
                    h += 1
    return when


@kernel
def follow(D: DryRun, chosen: Selection, i: int, when: int, limit: float, unused: bool) -> int:
    """List in chosen.stack what must run for op `when` to have the value, twice the op's number; 1 more: it costs.

    How many; -1: too many, or what comes back earlier reaches the limit. chosen.estimate[i] is what they cost,
    chosen.early[i] what else comes back earlier for that: bytes times the full ops until it would have. unused: only
    inputs without a use left are followed.
    """
    D.K[D_STAMP] += 1
    v = chosen.idle[i, I_VALUE]
    op = D.V[v, s.PRODUCER]
    chosen.stamp[op] = D.K[D_STAMP]
    chosen.stack[0] = 2 * op + 1 - _runs_anyway(D, chosen, op, i, when, unused)
    chosen.estimate[i] = chosen.early[i] = 0.0
    done, n = 0, 1
    while done < n:
        if done == _FAR or chosen.early[i] >= limit:
            return -1
        op, costs = chosen.stack[done] >> 1, chosen.stack[done] & 1
        done += 1
        if min(D.O[op + 1, s.INS] - D.O[op, s.INS], D.O[op, s.TEMPS] - D.O[op, s.OUTS]) > _FAR:
            return -1
        chosen.estimate[i] += float(costs * D.O[op, s.DECIDE])
        for k in range(D.O[op, s.OUTS], min(D.O[op, s.TEMPS], D.O[op, s.OUTS] + _FAR)):
            w = D.outs[k]
            again = _must_come(D, chosen, w, when, unused)
            if again != _THERE and w != v:
                until = when + 1 if again == _AGAIN else chosen.back[w + current(D, w, when)]
                chosen.early[i] += float(D.V[w, s.BYTES] * (chosen.full[until] - chosen.full[when]))
        for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
            u = D.ins[k]
            again = _must_come(D, chosen, u, when, unused)
            producer = D.V[u, s.PRODUCER]
            if again != _THERE and chosen.stamp[producer] != D.K[D_STAMP]:
                chosen.stamp[producer] = D.K[D_STAMP]
                chosen.stack[n] = 2 * producer + costs * (again == _AGAIN)
                n += 1
    return n if chosen.early[i] < limit else -1


_THERE, _EARLIER, _AGAIN = range(-1, 2)


@inlined
def _must_come(D: DryRun, chosen: Selection, u: int, when: int, unused: bool) -> int:
    """Whether u must be made when op `when` needs it for others: earlier than anyway, or again just for that."""
    found = _THERE
    if D.V[u, s.EVICTABLE]:
        at = current(D, u, when)
        i = u + at
        if at == D.V[u, s.USES_END]:
            if D.decisions[i] != STAY or chosen.kept[u] == 0:
                found = _AGAIN
        elif unused:
            found = _THERE
        elif D.decisions[i] == LEAVE and D.uses[at] > when:
            found = _AGAIN
        elif D.decisions[i] == LEAVE_ONCE and chosen.back[i] > when:
            found = _EARLIER
    return found


@inlined
def current(D: ProgramArrays, u: int, when: int) -> int:
    """Where in D.uses the first use of u is that is not before op `when`; the end of its uses if there is none."""
    low, high = D.V[u, s.USES], D.V[u, s.USES_END]
    while low < high:
        middle = (low + high) >> 1
        if D.uses[middle] < when:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _runs_anyway(D: DryRun, chosen: Selection, op: int, i: int, when: int, unused: bool) -> bool:
    """Whether something else that the op makes is gone, and needed again, between when the value leaves and `when`."""
    runs, first = False, chosen.idle[i, I_AFTER] + 1
    if not unused:
        first = max(begin(D, chosen, i), first)
    for k in range(D.O[op, s.OUTS], min(D.O[op, s.TEMPS], D.O[op, s.OUTS] + _FAR)):
        w = D.outs[k]
        if w != chosen.idle[i, I_VALUE]:
            at = current(D, w, first)
            while not runs and at < D.V[w, s.USES_END] and chosen.idle[w + at, I_AFTER] < when:
                decision = D.decisions[w + at]
                runs = decision == LEAVE or (decision == LEAVE_ONCE and (unused or chosen.back[w + at] >= first))
                at += 1
    return runs
