"""Allocators: where a value goes in memory. One file of kernels each; this table is what is known without compiling.

An allocator gives two kernels over the state: `carve`, which finds bytes for a value or returns -1, and `uncarve`,
which frees a piece. `replay/memory.py` calls them.
"""

from dataclasses import dataclass

from coopsim.kernel import codes
from coopsim.types import CoopsimError


@dataclass(frozen=True)
class Allocator:
    """What is known of an allocator without compiling anything. `code` selects its kernels."""

    name: str
    code: int
    granule: int
    has_addresses: bool
    summary: str

    def needs_a_piece(self, nbytes: int, budget: str) -> None:
        """CoopsimError if a budget of so many bytes is less than one piece. budget: what it is called."""
        if nbytes < self.granule:
            raise CoopsimError(f"{budget} is less than one piece of {self.name} ({self.granule} B)")


ALLOCATORS = {
    a.name: a
    for a in (
        Allocator(
            "arena",
            codes.ARENA,
            512,
            True,
            "one region; best fit, lowest address; 512 B; freed neighbours merge at once",
        ),
        Allocator(
            "cuda-caching", codes.CACHING, 512, True, "PyTorch's, of --torch V and --alloc-conf (docs/allocators.md)"
        ),
        Allocator("counter", codes.COUNTER, 1, False, "counts bytes, knows no addresses (DTR's simulator)"),
    )
}


def names() -> list[str]:
    """Names for `--allocator`."""
    return sorted(ALLOCATORS)


def find(name: str) -> Allocator:
    """The allocator of that name; CoopsimError with near matches if there is none."""
    from coopsim.errors import unknown

    if name not in ALLOCATORS:
        raise unknown("allocator", name, ALLOCATORS)
    return ALLOCATORS[name]
