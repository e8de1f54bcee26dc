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


def test_what_was_used_longest_ago_goes_until_there_is_room(child: Runner) -> None:
    text = """
step = parts(100 * KIB)
storages = [made(step, 20 * KIB, used) for used in (3, 1, 2)]
room = step.context.room
fits = [room.holds_all_and(30 * KIB), room.holds_all_and(60 * KIB)]
room.make(60 * KIB, [])
evicted = [tracked.evicted for tracked in storages]
after = room.holds_all_and(60 * KIB)
answer([fits, evicted, after, refused(room, 90 * KIB, storages[:1]), refused(parts(None).context.room, 1 << 40)])
"""
    fits, evicted, after, why, unlimited = child(IMPORT + text)
    assert fits == [True, False]
    assert evicted == [False, True, False]
    assert not after  # what is on the host counts, as a plan would keep it
    assert why.startswith("an op needs 90 KiB more, and of the budget of 100 KiB 80 KiB are left with nothing more")
    assert unlimited == ""


def test_small_storages_go_last(child: Runner) -> None:
    text = """
step = parts(1 << 30)
small, large = made(step, 16, 1), made(step, 1 << 20, 2)
found = [[tracked.nbytes for tracked, _ in step.context.values.spilled.candidates([])][:2]]
answer([*found, [tracked.nbytes for tracked, _ in step.context.values.spilled.candidates([large])][:1]])
"""
    assert child(IMPORT + text) == [[1 << 20, 16], [16]]


def test_a_budget_that_is_a_share_may_be_exceeded(child: Runner) -> None:
    text = "answer(refused(parts(KIB, hard=False).context.room, 1 << 20))"
    assert child(IMPORT + text) == ""


def test_the_host_s_memory_is_a_limit(child: Runner) -> None:
    """The error says how much of it would have sufficed."""
    text = """
step = parts(100 * KIB, host=30 * KIB)
storages = [made(step, 20 * KIB, used) for used in range(5)]
room = step.context.room
room.make(20 * KIB, [])
answer([refused(room, 30 * KIB), step.context.values.spilled.nbytes])
"""
    why, nbytes = child(IMPORT + text)
    assert (
        why
        == (
            "an op needs 30 KiB more, and of the budget of 100 KiB 20 KiB are left with --host-memory of 30 KiB full: "
            "for this op 30 KiB would have sufficed"
        )
        or "for this op" in why
    )
    assert nbytes == 20 << 10


def test_the_cap_is_raised_last_but_for_pages(child: Runner) -> None:
    """A hard budget by 1/64 at once, for pages of the allocator; beyond that once nothing is left to send.

    A step by plan goes on to be one without before that, and sends nothing: it might be what the op reads.
    """
    text = """
found = []
for by_plan in (False, True):
    cap = Cap(raises=1)
    step = parts(64 * KIB, cap)
    tracked, room = made(step, KIB), step.context.room
    if by_plan: room.by_plan = True
    found.append([[room.short([], tries), tracked.evicted, room.over_cap, cap.given[-1]] for tries in range(3)])
answer(found)
"""
    without, by_plan = child(IMPORT + text)
    assert without[0] == by_plan[0] == [True, False, True, 65 << 10]
    assert (without[1][:2], by_plan[1][:2]) == ([True, True], [False, False])
    assert without[2][0] == by_plan[2][0] == False  # noqa: E712  (a list of both)
    assert (without[2][3], by_plan[2][3]) == (None, 65 << 10)


def test_nothing_goes_while_only_the_observer_knows_where_values_are(child: Runner) -> None:
    """An op that it runs again by way of Python may lack a hole in an arena, or run out of memory: it is told so."""
    text = """
found = []
for arena in (False, True):
    step, holes = parts(64 * KIB, Cap()), []
    step.context.room._in_arena = SimpleNamespace(make_hole=lambda *_: not holes.append(1)) if arena else None
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
    room = parts(64 * KIB, Cap(raises=1), hard=hard).context.room
    room._in_arena = SimpleNamespace(make_hole=lambda *_: False)
    room.by_plan = True
    kept = room.short([], 0)
    room.by_plan = False
    found.append([kept, room.short([], 0)])
answer(found)
"""
    assert child(IMPORT + text) == [[False, True], [True, False]]
