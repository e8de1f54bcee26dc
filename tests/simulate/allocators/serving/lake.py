"""GMLake for scenarios by hand, and what must hold of it after any requests."""

from coopsim.simulate.allocators.serving.gmlake import CHUNK, GMLake, GmlakeOptions, PBlock
from coopsim.simulate.allocators.serving.plain import BlockInUse
from coopsim.simulate.allocators.serving.result import ServingOutOfMemory

MIB = 1 << 20


def lake(**options: object) -> GMLake:
    return GMLake(GmlakeOptions(**({"frag_limit": 64 * MIB} | options)))  # type: ignore[arg-type]


def islands(g: GMLake, *sizes: int) -> list[list[PBlock]]:
    """Free runs of so many MiB, none beside another."""
    kept = [(g.take(size * MIB), g.take(12 * MIB)) for size in sizes]
    for block, _ in kept:
        g.give_back(block)
    return [wall for _, wall in kept]


def reserved(g: GMLake) -> int:
    return g.meter.now["reserved"] // MIB


def mib(handle: list[PBlock] | BlockInUse) -> list[int]:
    assert isinstance(handle, list)
    return [len(block.chunks) * CHUNK // MIB for block in handle]


def check(g: GMLake, held: list[list[PBlock] | BlockInUse]) -> None:
    """Every chunk is in one block, in use exactly if one handle has it; counts agree; neighbours are linked."""
    used: set[int] = set()
    for handle in held:
        for block in handle if isinstance(handle, list) else ():
            assert not block.free
            for chunk in block.chunks:
                assert chunk.used
                assert id(chunk) not in used
                assert chunk.block is block
                used.add(id(chunk))
    for free in g.free.values():
        assert free == sorted(free, key=lambda entry: entry[0])
        for key, block in free:
            assert key == block.key
            assert block.free
            assert not any(chunk.used for chunk in block.chunks)
            for neighbour in (block.before, block.after):
                assert neighbour is None or not neighbour.free, "two free neighbours"
    for s in g.stitched:
        assert s.used == sum(chunk.used for chunk in s.chunks)
        assert all(s in chunk.mapped for chunk in s.chunks)
        assert len(set(map(id, s.chunks))) == len(s.chunks), "a chunk is mapped twice"
    assert g.meter.now["reserved"] >= g.meter.now["allocated"] >= 0


def refused(g: GMLake, nbytes: int, stream: int = 0) -> bool:
    try:
        g.take(nbytes, stream)
    except ServingOutOfMemory:
        return True
    return False
