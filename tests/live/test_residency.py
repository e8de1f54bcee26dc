"""Where a value is: on the device, on the host, or nowhere; and what moves it from one to the other."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.actions import Action, Kind
from coopsim.live.follow import Follow
from tests.live.made_up import KIB, made, parts, plan
step = parts()
residency = step.context.residency
follow = Follow(plan([], []), step.context.values, step.context.storages)
def act(kind, tracked, at=0):
    tracked.number, follow.storages[1] = 1, tracked
    follow._act(Action(kind, (1, 0), at))
    return where(tracked)
def where(tracked):
    if residency.memory_of((tracked, tracked.version)) is not None: return "DEVICE"
    return "HOST" if residency.copies.has((tracked.number, tracked.version)) else "NOWHERE"
def filled(nbytes=KIB, fill=7):
    tracked = made(step, nbytes)
    tracked.ref().fill_(fill)
    return tracked
def reads(tracked): return sorted(set(tracked.ref().tolist()))
"""


def test_a_value_goes_to_the_host_and_back(child: Runner) -> None:
    """By a plan: it is on the device until its copy is made, and not again before that has arrived."""
    text = """
assert not step.context.residency.copies._area.reserve(4 * KIB)
tracked = filled()
found = [act(kind, tracked, KIB) for kind in (Kind.OFFLOAD, Kind.EVICT_OFFLOADED, Kind.FETCH, Kind.ARRIVE)]
answer([found, reads(tracked), residency.copies.offloads, residency.evictions])
"""
    assert child(IMPORT + text) == [["DEVICE", "HOST", "HOST", "DEVICE"], [7], 1, 1]


def test_what_is_evicted_is_nowhere_and_what_is_held_is_not(child: Runner) -> None:
    text = """
tracked, held = filled(), filled()
held.held[0] = torch.UntypedStorage(KIB)
residency.evict((tracked, 0))
answer([where(tracked), residency.evicted_at(tracked.ref()) is tracked, where(held)])
"""
    assert child(IMPORT + text) == ["NOWHERE", True, "DEVICE"]


def test_what_has_to_stay_stays(child: Runner) -> None:
    """A storage whose address is known, and one that a copy may still read."""
    text = """
assert not step.context.residency.copies._area.reserve(4 * KIB)
pinned, copied, older = filled(), filled(), filled()
pinned.pinned = True
act(Kind.OFFLOAD, copied)
older.version += 1
for tracked in (pinned, copied): residency.evict((tracked, 0))
residency.evict((older, 0))  # a version that nobody has
answer([where(pinned), where(copied), where(older)])
"""
    assert child(IMPORT + text) == ["DEVICE", "DEVICE", "DEVICE"]
