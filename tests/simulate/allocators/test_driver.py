"""Where the driver puts segments: its rule, written again in plain Python, and what a card showed of it."""

import random

import numpy as np
import pytest

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.simulate.allocators.caching.device import TOP
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace.request_rows import ALLOCATE, EMPTY, FREE

MIB = 1 << 20
CHUNK = 32 * MIB


class Plain:
    """Chunks, oldest first: address, bytes, and the ranges in them by address."""

    def __init__(self) -> None:
        self.chunks: list[tuple[int, int, dict[int, int]]] = []

    def malloc(self, nbytes: int) -> int:
        for at, size, ranges in reversed(self.chunks):
            ends = [at, *(start + ranges[start] for start in sorted(ranges))]
            gaps = [(stop - end, end) for end, stop in zip(ends, [*sorted(ranges), at + size], strict=True)]
            if fits := [gap for gap in gaps if gap[0] >= nbytes]:
                address = min(fits)[1]
                ranges[address] = nbytes
                return address
        size, high = -(-nbytes // CHUNK) * CHUNK, TOP
        for at, taken, _ in sorted(self.chunks, reverse=True):
            if high - at - taken > size:
                break
            high = at
        self.chunks.append((high - size, size, {high - size: nbytes}))
        return high - size

    def free(self, address: int) -> None:
        chunk = next(c for c in self.chunks if address in c[2])
        del chunk[2][address]
        if not chunk[2]:
            self.chunks.remove(chunk)


def test_as_written_in_plain_python() -> None:
    """Requests of more than 10 MiB that are freed to the device at once: each is one segment."""
    rng, rows, expected, plain = random.Random(7), [], [], Plain()
    held: dict[int, int] = {}
    for number in range(1500):
        if held and rng.random() < 0.45:
            freed = rng.choice(list(held))
            plain.free(held.pop(freed))
            rows += [(FREE, freed, 0, 0), (EMPTY, 0, 0, 0)]
        nbytes = 2 * MIB * rng.choice([6, 6, 7, 9, 12, 15, 16, 17, 23, 31, 33, 40, 64, 177])
        rows.append((ALLOCATE, number, nbytes, 0))
        held[number] = plain.malloc(nbytes)
        expected.append(held[number])
    requests = np.array(rows, np.int64)
    allocator = CachingAllocator("2.11.0", total_bytes=1 << 45, driver="cuda")
    answers, _ = allocator.run(requests)
    assert answers[requests[:, 0] == ALLOCATE].tolist() == expected
    assert len({address % CHUNK for address in expected}) > 5  # ranges share chunks


def segments(*sizes: int) -> list[int]:
    rows = np.array([(ALLOCATE, i, n * MIB, 0) for i, n in enumerate(sizes)], np.int64)
    answers, _ = CachingAllocator("2.11.0", driver="cuda").run(rows)
    return [(TOP - a) // MIB for a in answers.tolist()]


def test_chunks_descend_and_their_ranges_ascend() -> None:
    """As in the history of swin-t: 46, 46, 12, 12 and then 18, 12 MiB."""
    assert segments(46, 46, 12, 12) == [64, 128, 128 - 46, 64 - 46]
    assert segments(18, 18, 12, 12) == [32, 64, 64 - 18, 32 - 18]


def test_what_is_not_recorded_goes_around_what_is() -> None:
    """Places of three are recorded. The chunks that they lie in are known by them, and filled as others."""
    low = TOP - (1 << 40)
    places = [(low, 46 * MIB), (low + 52 * MIB, 12 * MIB), (low - 44 * MIB, 34 * MIB)]
    rows = np.array([(ALLOCATE, i, n * MIB, 0) for i, n in enumerate((46, 12, 34, 12, 20))], np.int64)
    answers, _ = CachingAllocator("2.11.0", "", 1 << 45, np.array(places), "cuda").run(rows)
    assert answers.tolist() == [*(address for address, _ in places), low - 64 * MIB, TOP - 32 * MIB]


def test_a_hole_of_exactly_a_chunk_stays() -> None:
    rows = [(ALLOCATE, i, 32 * MIB, 0) for i in range(3)]
    rows += [(FREE, 1, 0, 0), (EMPTY, 0, 0, 0), (ALLOCATE, 3, 32 * MIB, 0), (FREE, 0, 0, 0), (EMPTY, 0, 0, 0)]
    answers, _ = CachingAllocator("2.11.0", driver="cuda").run(np.array([*rows, (ALLOCATE, 4, 32 * MIB, 0)], np.int64))
    assert [(TOP - a) // MIB for a in answers[[0, 1, 2, 5, 8]].tolist()] == [32, 64, 96, 128, 32]


def test_a_replay_with_it_is_sound(bert) -> None:
    budget = 16 << 30
    found = replay(bert, "coop", budget, cuda_caching("2.11.0", driver="cuda"), steps=1)
    assert found.header["driver"] == "cuda"
    assert found.header["outcome"] == "ok"
    assert not validate(found, bert)
    assert found.address.max() > TOP - (1 << 36)
    assert replay(bert, "coop", budget, cuda_caching("2.11.0"), steps=1).header["driver"] == "first-fit"


def test_unknown_driver() -> None:
    with pytest.raises(CoopsimError, match="unknown driver 'cudaa'"):
        cuda_caching(driver="cudaa")
