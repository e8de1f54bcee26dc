"""The ages of segments, as their addresses tell them."""

from coopsim.trace.snapshot.chunks import oldest_first

MIB = 1 << 20


def order(*segments: tuple[int, int]) -> list[int]:
    return [address // MIB for address, _ in oldest_first([(a * MIB, n * MIB) for a, n in segments], lambda s: s)]


def test_later_chunks_lie_lower_and_fill_from_their_low_ends() -> None:
    assert order((960, 2), (962, 20), (896, 46), (942, 12), (800, 64)) == [960, 962, 896, 942, 800]


def test_a_segment_may_begin_within_a_chunk_whose_maker_is_gone() -> None:
    assert order((70, 20), (96, 2), (40, 12)) == [96, 70, 40]


def test_nothing() -> None:
    assert order() == []
