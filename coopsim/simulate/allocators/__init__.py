"""Allocators: where a value goes in memory. One file of kernels each; this table is what is known without compiling.

An allocator gives two kernels over the state: `carve`, which finds bytes for a value or returns -1, and `uncarve`,
which frees a block. `replay/memory.py` calls them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coopsim.base.types import GRANULE, CoopsimError
from coopsim.simulate.kernel import codes

if TYPE_CHECKING:
    from coopsim.simulate.allocators.caching.memory import CachingMemory


#: Where cudaMalloc puts segments, if nothing is said: as the stand-in does beneath the real allocator
#: (coopsim.study.oracle).
DRIVER = "first-fit"


@dataclass(frozen=True)
class Allocator:
    """What is known of an allocator without compiling anything. `code` selects its kernels."""

    name: str
    code: int
    granule: int
    has_addresses: bool
    summary: str

    def needs_a_block(self, nbytes: int, budget: str) -> None:
        """CoopsimError if a budget of so many bytes is less than one block. budget: what it is called."""
        if nbytes < self.granule:
            raise CoopsimError(f"{budget} is less than one block of {self.name} ({self.granule} B)")

    def memory(self, total_bytes: int, values: int) -> "CachingMemory | None":  # noqa: ARG002 (of those that keep some)
        """What it keeps beside the state of a replay of a program with so many values; None: nothing."""
        return None


@dataclass(frozen=True)
class CudaCaching(Allocator):
    """PyTorch's caching allocator: of a version, under settings, on a driver."""

    torch: str = ""
    conf: str = ""
    driver: str = DRIVER

    def memory(self, total_bytes: int, values: int) -> "CachingMemory":
        """Segments and blocks of its own."""
        from coopsim.simulate.allocators.caching.memory import CachingMemory

        return CachingMemory(self.torch, self.conf, self.driver, total_bytes, values)


def cuda_caching(torch: str = "", conf: str = "", driver: str = DRIVER) -> CudaCaching:
    """PyTorch's caching allocator as an allocator of replays, whose budget is then the memory of the card.

    torch: a version from 2.6 to 2.15 (default: the newest). conf: what PYTORCH_CUDA_ALLOC_CONF holds. driver: where
    cudaMalloc puts segments, `first-fit` or `cuda` (as on a card; docs/allocators.md). CoopsimError for a version that
    is not simulated, settings that it refuses, or another driver.
    """
    from coopsim.simulate.allocators.caching.conf import parse
    from coopsim.simulate.allocators.caching.device import find_driver
    from coopsim.simulate.allocators.caching.version import NEWEST, find

    for name, value in (("torch", torch), ("alloc_conf", conf), ("driver", driver)):
        if not isinstance(value, str):
            raise CoopsimError(f'{name}: {value!r} is not text; write it in quotes, as "{value}"')
    parse(conf, find(torch or NEWEST))
    find_driver(driver)
    return replace(_CUDA_CACHING, torch=torch or NEWEST, conf=conf, driver=driver)


_OF_ARENA = "one region; best fit, lowest address; 512 B; freed neighbours merge at once"
_OF_PYTORCH = "PyTorch's, of --torch V and --alloc-conf (docs/allocators.md)"
ARENA = Allocator("arena", codes.ARENA, GRANULE, True, _OF_ARENA)
COUNTER = Allocator("counter", codes.COUNTER, 1, False, "counts bytes, knows no addresses (DTR's simulator)")
_CUDA_CACHING = CudaCaching("cuda-caching", codes.CACHING, GRANULE, True, _OF_PYTORCH)
ALLOCATORS: dict[str, Allocator] = {a.name: a for a in (ARENA, _CUDA_CACHING, COUNTER)}


def names() -> list[str]:
    """Names for `--allocator`."""
    return sorted(ALLOCATORS)


def find(name: "str | Allocator") -> Allocator:
    """The allocator of that name (of cuda-caching the newest, without settings), or the one that is given.

    CoopsimError with near matches if there is none of that name.
    """
    from coopsim.base.errors import named, unknown

    if isinstance(name, Allocator):
        return name
    if named("allocator", name) not in ALLOCATORS:
        raise unknown("allocator", name, ALLOCATORS)
    return cuda_caching() if name == _CUDA_CACHING.name else ALLOCATORS[name]
