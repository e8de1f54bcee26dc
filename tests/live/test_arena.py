"""The arena's allocator by itself, without CUDA: against a list of intervals that knows nothing of how it chooses."""

from dataclasses import replace
from itertools import combinations

from coopsim.live.arena.place import place, place_rest
from coopsim.live.arena.requests import TO_THE_END, Requests
from tests.conftest import Runner

HEAD = """
import ctypes, random
from coopsim.live import device
from coopsim.live.arena import library
lib, HOST = library.load(), library.HOST
BASE, SIZE = 1 << 40, 512 * 4096
arena = library.Arena(HOST)
lib.coopsim_arena_host(BASE, SIZE)
def take(n):
    return lib.coopsim_arena_malloc(n, HOST, None)
def give(p):
    lib.coopsim_arena_free(p, 0, HOST, None)
"""

RANDOM = """
import torch
draw, there, ooms = random.Random(7), {}, 0
at = ctypes.c_int64(0)
for i in range(20000):
    if i % 1000 == 0:
        arena.zone(draw.randrange(2))
        if draw.random() < 0.5:
            n = [512 * draw.randint(1, 60) for _ in range(50)]
            where = [512 * draw.randint(-1, 4090) if draw.random() < 0.9 else -1 for _ in n]
            arena.follow(at, [0, 50], n, [max(w, -1) for w in where])
        else:
            arena.unfollow()
    if there and draw.random() < 0.5:
        give(there.pop(draw.choice(list(there)))[0])
        continue
    n = draw.randint(1, 30000)
    taken = sorted((p - BASE, (m + 511) // 512 * 512) for p, m in there.values())
    try:
        p = take(n)
    except Exception:
        raise SystemExit("an exception of C++ went through ctypes")
    assert BASE <= p and p - BASE + n <= SIZE, "outside"
    assert p % 512 == 0
    for offset, m in taken:
        assert p - BASE + n <= offset or offset + m <= p - BASE, "overlap"
    there[i] = p, n
    if len(there) > 90:
        give(there.pop(next(iter(there)))[0])
s = arena.stats
for p, _ in there.values():
    give(p)
left = arena.layout()
give(take(SIZE))  # all of it is one hole again
answer([s.allocated, s.placed > 0, left])
"""


def test_no_two_blocks_overlap_and_all_comes_back(child: Runner) -> None:
    """20 000 requests, by plans whose addresses are often taken, and by none: each block is inside, and alone there."""
    assert child(HEAD + RANDOM) == [0, True, []]


PLACED = """
at = ctypes.c_int64(0)
arena.follow(at, [0, 2, 3], [512, 1024, 512], [5120, 0, 5120])
a = take(300) - BASE
b = take(1000) - BASE
c = take(4096) - BASE  # none of the plan's: above it
at.value = 1
d = take(512) - BASE  # its place is taken
empty = take(0)
give(empty)
arena.when_full(library.GROWS)
for block in [take(SIZE) for _ in range(2)][:1]:
    give(block)
calls = [device._calls(library.stats(HOST)), arena.stats.outside]
answer([a, b, c, d, empty, arena.stats.planned, arena.stats.placed, *calls])
"""


def test_requests_go_where_the_plan_has_them(child: Runner) -> None:
    a, b, c, d, empty, planned, placed, calls, outside = child(HEAD + PLACED)
    assert (a, b) == (5120, 0)
    assert c >= 5632
    assert d not in (5120, 0, 512)
    assert empty is None  # as PyTorch's own allocators do
    assert (planned, placed) == (3, 2)
    assert (calls, outside) == (1 + 2 + 1, 512 * 4096)  # the arena; two blocks that do not fit in it, of which one goes


RECORDED = """
from coopsim.record.observe.storages import Storage
from coopsim.live.arena.library import of_op
log = [(0, 512), (1024, 2048), (8192, 4096), (1024, 0)]  # the second is given back, the third is not
answer(of_op(log, 1 << 40, [Storage(0, 512, 1 << 40)]))
"""


def test_what_an_op_takes_for_good_is_none_of_its_temporaries(child: Runner) -> None:
    """As cuBLAS's workspace at the first matrix product: it would be planned to go, and lie in the way."""
    assert child(HEAD + RECORDED) == [[2048], [-1, 2048, -2]]


def test_requests_lie_around_what_stays_and_what_others_leave() -> None:
    """No two blocks overlap while both are there; where all that is left lies as the cycle has it, so does the rest."""
    nbytes, until = [512, 1024, 512, 2048, 512], [2, 4, TO_THE_END, 5, TO_THE_END]
    asked = Requests([0, 5], nbytes, until, [None] * 4 + ["optimizer_state"], [(512, 2)])
    resting, limit = ((0, 512), (5632, 1024)), 6656
    usual = place(asked, resting, limit)
    assert usual.needed <= 5632
    assert usual.left == [(2, 2)]
    assert usual.offset[4] == 512  # state, as low as it can
    apart(asked, usual.offset, [(*block, TO_THE_END) for block in resting])
    assert place_rest(asked, resting, limit, ((usual.offset[2], 512, 2),), 0) is usual
    for at in range(512, 5632, 512):
        gone = ((at, 512, 2),)
        found = place_rest(asked, resting, limit, gone, 0)
        assert -1 not in found.offset
        apart(asked, found.offset, [*((*block, TO_THE_END) for block in resting), *gone])
    longer = replace(asked, until=[max(u, 3) for u in until])  # nothing is freed before it is known what the step is
    apart(longer, place_rest(asked, resting, limit, (), 0, 3).offset, [(*block, TO_THE_END) for block in resting])


def test_what_a_first_step_leaves_for_good_lies_below_all_else() -> None:
    """Or it would lie in the way of all later steps."""
    asked = Requests(
        [0, 4], [2048, 512, 1024, 512], [4, *[TO_THE_END] * 3], [None, None, "optimizer_state", "gradient"]
    )
    assert place(asked, ((0, 512),), 1 << 20).offset[1:3] == [1536, 512]


def apart(asked: Requests, offset: list[int], there: list[tuple[int, int, int]]) -> None:
    blocks = [(at, n, start, until) for at, n, start, until in zip(offset, asked.nbytes, range(9), asked.until)]  # noqa: B905
    for (a, n, start, until), (b, m, late, end) in combinations([*((at, n, -1, u) for at, n, u in there), *blocks], 2):
        assert late >= until or start >= end or a + n <= b or b + m <= a


LACKS = """
import torch
from coopsim.live.arena.library import FAILS, RAISES
from tests.live.in_arena import serve_cpu
arena, found = serve_cpu(1 << 20), []
for how in (FAILS, RAISES, FAILS):
    arena.when_full(how)
    try: torch.empty(2 << 20, dtype=torch.uint8)
    except RuntimeError as error: found.append([type(error).__name__, str(error)[:18]])
answer(found)
"""


def test_within_a_step_the_error_of_a_full_arena_is_none_that_ops_catch(child: Runner) -> None:
    kinds = ["OutOfMemoryError", "RuntimeError", "OutOfMemoryError"]
    assert child(LACKS) == [[kind, "CUDA out of memory"] for kind in kinds]
