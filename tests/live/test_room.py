"""Room on the device: what a step gives up for it, in which order, and where it ends."""

from tests.conftest import Runner

IMPORT = """
from types import SimpleNamespace
import torch
from coopsim.live.errors import DoesNotFit
from tests.live.made_up import KIB, Cap, made, parts
def refused(room, nbytes, protected=()):
    try: room.make(nbytes, protected)
    except DoesNotFit as error: return str(error)
    return ""
"""


def test_values_are_evicted_until_there_is_room(child: Runner) -> None:
    text = """
step = parts(100 * KIB)
storages = [made(step, 20 * KIB, cost) for cost in (3, 1, 2)]
room = step.context.room
fits = [room.has(30 * KIB), room.has(60 * KIB)]
room.make(60 * KIB, [])
evicted = [tracked.evicted for tracked in storages]
answer([fits, evicted, refused(room, 90 * KIB, storages[:1]), refused(parts(None).context.room, 1 << 40)])
"""
    fits, evicted, why, unlimited = child(IMPORT + text)
    assert fits == [True, False]
    assert evicted == [False, True, False]
    assert why.startswith("an op needs 90 KiB more, and of the budget of 100 KiB 80 KiB are left with nothing more")
    assert unlimited == ""


def test_a_budget_that_is_a_share_may_be_exceeded(child: Runner) -> None:
    text = "answer(refused(parts(KIB, hard=False).context.room, 1 << 20))"
    assert child(IMPORT + text) == ""


def test_there_is_an_end_to_what_a_step_runs_again(child: Runner) -> None:
    text = """
step = parts(KIB)
step.context.residency.count(recomputes=101)
made(step, KIB)
answer(refused(step.context.room, KIB))
"""
    assert "runs 16 times as many ops again as the step has" in child(IMPORT + text)


def test_the_cap_is_raised_last_but_for_pages(child: Runner) -> None:
    """A hard budget by 1/64 at once, for pages of the allocator; beyond that once nothing is left to evict, on demand.

    A step by plan goes on to be one on demand before that, and evicts nothing: it might be what the op reads.
    """
    text = """
found = []
for by_plan in (False, True):
    cap = Cap(raises=1)
    step = parts(64 * KIB, cap)
    tracked, room = made(step, KIB), step.context.room
    if by_plan: room.go_by_plan(tuple)
    found.append([[room.short([], tries), tracked.evicted, room.over_cap, cap.given[-1]] for tries in range(3)])
answer(found)
"""
    by_demand, by_plan = child(IMPORT + text)
    assert by_demand[0] == by_plan[0] == [True, False, True, 65 << 10]
    assert (by_demand[1][:2], by_plan[1][:2]) == ([True, True], [False, False])
    assert by_demand[2][0] == by_plan[2][0] == False  # noqa: E712  (a list of both)
    assert (by_demand[2][3], by_plan[2][3]) == (None, 65 << 10)


def test_nothing_is_evicted_or_moved_while_only_the_observer_knows_where_values_are(child: Runner) -> None:
    """An op that it runs again by way of Python may lack a hole in an arena, or run out of memory: it is told so."""
    text = """
found = []
for arena in (False, True):
    cap, holes = Cap(), []
    cap.hole = lambda ways: SimpleNamespace(made=lambda *_: not holes.append(1)) if arena else None
    step = parts(64 * KIB, cap)
    tracked = made(step, KIB)
    def lacks():
        if not holes and not tracked.evicted: raise torch.OutOfMemoryError("no room")
    for protected in (None, ()):
        try: found.append(step.context.values.attempt(torch.ops.aten.add.Tensor, lacks, protected))
        except torch.OutOfMemoryError: found.append("told")
        found.append([len(holes), tracked.evicted])
answer(found)
"""
    assert child(IMPORT + text) == ["told", [0, False], None, [0, True], "told", [0, False], None, [1, False]]


def test_an_arena_is_exceeded_only_once_the_plan_is_left(child: Runner) -> None:
    """Unless it is to be found out by how much a plan is over."""
    text = """
found = []
for hard in (True, False):
    cap = Cap(raises=1)
    cap.hole = lambda ways: SimpleNamespace(made=lambda *_: False)
    room = parts(64 * KIB, cap, hard=hard).context.room
    room.go_by_plan(tuple)
    found.append([room.short([], 0), room.go_on_demand(), room.short([], 0)])
answer(found)
"""
    assert child(IMPORT + text) == [[False, None, True], [True, None, False]]


def test_what_a_plan_has_held_goes_if_it_can_be_made_again(child: Runner) -> None:
    """Once the step has left the plan; but not what the running op reads."""
    text = """
from tests.live.made_up import KEPT
step = parts(100 * KIB)
read, other, lost = storages = [made(step, 20 * KIB) for _ in range(3)]
for one in storages: one.held[0] = one.ref()
del lost.makers[0], one
KEPT.clear()  # the program has freed them
room = step.context.room
room.go_on_demand([(tracked, 0) for tracked in storages])
why = refused(room, 70 * KIB, [read])
answer([[len(tracked.held) for tracked in storages], why[:32]])
"""
    assert child(IMPORT + text) == [[1, 0, 1], "an op needs 70 KiB more, and of "]
