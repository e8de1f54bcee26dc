"""GMLake where the released program differs from what one would write: each of its rules in a scenario by hand."""

import pytest

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators.serving.gmlake import GIB, run
from coopsim.simulate.allocators.serving.gmlake_blocks import PBlocks, SBlocks
from coopsim.simulate.allocators.serving.gmlake_chunks import TickClock
from coopsim.simulate.allocators.serving.result import ServingMeter
from coopsim.trace.requests import Writer
from tests.simulate.allocators.serving.lake import MIB, check, islands, lake, mib, refused, reserved


@pytest.mark.parametrize(
    ("nbytes", "segment"),
    [
        (MIB, 2),
        (MIB + 1, 20),
        (8 * MIB, 20),
        (8 * MIB + 1, 10),
        (9 * MIB, 10),
        (10 * MIB - 512, 10),
        (10 * MIB, 10),
        (10 * MIB + 1, 12),
    ],
)
def test_a_request_is_rounded_to_chunks_before_its_segment_is_chosen(nbytes: int, segment: int) -> None:
    g = lake()
    g.take(nbytes)
    assert reserved(g) == segment


def test_collecting_takes_all_that_are_not_handed_out() -> None:
    """Above the limit also those go whose chunks are in use, and no more than what goes is taken off the count."""
    g = lake(auto_gc=200 * MIB, reuse_limit=1)
    islands(g, 40, 40, 20)
    g.give_back(g.take(80 * MIB))
    g.take(22 * MIB)  # some of its chunks
    assert [s.used for s in g.stitched] == [11]
    islands(g, 50, 46)
    g.take(96 * MIB)  # 176 MiB so far
    assert (len(g.stitched), g.count["unmapped"]) == (2, 0)
    islands(g, 60, 60)
    g.take(120 * MIB)
    assert [len(s.chunks) for s in g.stitched] == [48, 60]
    assert g.sblocks.stitched == 216 * MIB
    islands(g, 70, 70)
    g.take(140 * MIB)  # above the limit, but nothing to take
    assert (len(g.stitched), g.count["unmapped"], g.sblocks.stitched) == (3, 1, 356 * MIB)


def test_what_goes_with_its_segment_stays_in_the_count() -> None:
    g = lake(auto_gc=200 * MIB, frag_limit=16 * MIB, defrag_level=0)
    wall = islands(g, 40, 40)
    g.give_back(g.take(80 * MIB))
    for block in wall:
        g.give_back(block)
    g.empty_cache()
    assert (g.stitched, g.sblocks.stitched, reserved(g)) == ([], 80 * MIB, 0)


def test_a_limit_of_reuse_between_two_numbers() -> None:
    for limit, reuses in ((1.5, 0), (1.6, 1)):
        g = lake(reuse_limit=limit)
        islands(g, 40, 40)
        g.give_back(g.take(80 * MIB))
        g.take(50 * MIB)
        assert g.count["reuses"] == reuses


def test_empty_cache() -> None:
    """Free segments of all sizes go, and sBlocks that are not handed out; those that are stay whole."""
    g = lake()
    islands(g, 40, 40)
    g.give_back(g.take(80 * MIB))
    islands(g, 40, 60)
    kept = g.take(100 * MIB)
    g.give_back(g.take(MIB))
    g.give_back(g.take(30 * MIB, stream=1))
    g.empty_cache()
    assert (mib(kept), len(g.stitched), len(g.free.get(1, []))) == ([60, 40], 1, 0)
    check(g, [kept])
    g.give_back(kept)
    assert [s.used for s in g.stitched] == [0]


def test_another_streams_use_delays_reuse_until_the_next_request() -> None:
    g = lake()
    a = g.take(40 * MIB)
    g.record_stream(a, 0)  # its own
    g.give_back(a)
    assert (len(g.free[0]), g.meter.now["waiting"]) == (1, 0)
    a = g.take(40 * MIB)
    g.record_stream(a, 1)
    g.give_back(a)
    assert (g.free[0], g.meter.now["allocated"], g.meter.now["waiting"]) == ([], 0, 40 * MIB)
    assert mib(g.take(30 * MIB)) == [30]
    assert (reserved(g), g.meter.now["waiting"]) == (40, 0)
    assert g.meter.result("", {}).peak_active == 40 * MIB


def test_events_take_their_time() -> None:
    g = lake()
    g.clock.delay = 5
    a, small = g.take(40 * MIB), g.take(MIB)
    for stream in (1, 2):
        g.record_stream(a, stream)
        g.record_stream(small, stream)
    g.give_back(a)
    g.give_back(small)
    g.clock.now = 4
    g.take(40 * MIB)
    assert reserved(g) == 82
    g.clock.now = 5
    g.take(40 * MIB)
    g.take(MIB)
    assert reserved(g) == 82


def test_a_full_device_waits_for_events_but_looks_only_for_new_memory() -> None:
    """A block that was waited for serves no request of this size, unless it is stitched or its segment goes back."""
    g = lake(memory=100 * MIB, frag_limit=1 << 60)
    a, wall = g.take(50 * MIB), g.take(40 * MIB)
    g.give_back(a)
    a = g.take(48 * MIB)
    rest = g.take(2 * MIB)
    g.clock.delay = 9
    g.record_stream(a, 1)
    g.give_back(a)
    assert refused(g, 48 * MIB)
    assert g.clock.now == 9
    assert mib(g.take(48 * MIB)) == [48]
    check(g, [wall, rest])


def test_one_block_that_was_waited_for_is_stitched() -> None:
    g = lake(memory=100 * MIB, frag_limit=16 * MIB)
    g.give_back(g.take(50 * MIB))
    a, _ = g.take(48 * MIB), g.take(2 * MIB)
    g.give_back(g.take(46 * MIB))
    g.take(44 * MIB)  # 2 MiB remain beside it
    g.clock.delay = 9
    g.record_stream(a, 1)
    g.give_back(a)
    assert mib(g.take(48 * MIB)) == [48]
    assert g.count["stitches"] == 1


def test_collecting_stops_at_what_was_given_back_too_recently() -> None:
    g = lake(auto_gc=10 * GIB)
    islands(g, 40, 40)
    g.give_back(g.take(80 * MIB))
    walls = islands(g, 50, 60)
    g.clock.delay = 5
    g.give_back(g.take(110 * MIB))
    g.sblocks.collect(g.clock)
    assert [len(s.chunks) for s in g.stitched] == [55]
    g.clock.now = 5
    g.sblocks.collect(g.clock)
    assert g.stitched == []
    check(g, walls)


def test_a_segment_goes_while_an_sblock_that_maps_it_is_handed_out() -> None:
    """Its memory stays with the device until then; the release crashes when the sBlock is given back."""
    g = lake(frag_limit=16 * MIB, memory=200 * MIB)
    for block in [g.take(60 * MIB), g.take(40 * MIB), g.take(20 * MIB)]:
        g.give_back(block)
    g.give_back(g.take(120 * MIB))
    half = g.take(62 * MIB)
    g.empty_cache()
    assert (reserved(g), g.sblocks.kept) == (100, 20 * MIB)
    assert refused(g, 100 * MIB)  # 120 are in use
    g.give_back(half)
    assert (g.sblocks.kept, g.count["faults"], g.stitched) == (0, 1, [])


def test_a_walk_that_removes_skips() -> None:
    """Of three sBlocks on the only chunk of a segment that goes, the second stays; it crashes when it is used."""
    for used in (False, True):
        blocks, s = PBlocks(ServingMeter()), SBlocks()
        small, other = blocks.segment(2 * MIB, 0), blocks.segment(4 * MIB, 0)
        for _ in range(3):
            s.stitch([other, small], 0)
        s.leave(small)
        assert ([b.number for b in s.all], s.kept) == ([2], 2 * MIB)
        if used:
            assert s.idle(2, 10, 0) is s.all[0]  # the chunks that are there
            assert s.idle(3, 10, 0) is None
        else:
            s.collect(TickClock())
        assert (s.all, s.kept, s.faults) == ([], 0, used)


def test_run_serves_what_is_no_memory_request() -> None:
    w = Writer()
    w.delay(3)
    a = w.take(40 * MIB)
    w.use(a, 1)
    w.give_back(a)
    b = w.take(40 * MIB)
    w.tick(3)
    w.give_back(b)
    w.give_back(w.take(MIB))
    w.empty()
    w.take(12 * MIB)
    found = run(w.requests())
    assert (found.peak_reserved, found.device_frees) == (82 * MIB, 3)
    assert (found.peak_allocated, found.peak_active) == (40 * MIB, 80 * MIB)


def test_run_refuses_private_pools() -> None:
    w = Writer()
    w.within(1)
    w.take(MIB)
    with pytest.raises(
        CoopsimError, match=r"^gmlake serves no private pools \(CUDA graphs, torch.cuda.use_mem_pool\)$"
    ):
        run(w.requests())
