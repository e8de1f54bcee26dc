"""The caching allocator as the memory of a replay: empty ones to begin with, and what is said of a used one."""

from typing import TYPE_CHECKING, Any

from coopsim.simulate.allocators.caching import settings, version
from coopsim.simulate.allocators.caching import state as caching_state
from coopsim.simulate.allocators.caching.conf import parse
from coopsim.simulate.allocators.caching.device import find_driver

if TYPE_CHECKING:
    from coopsim.simulate.kernel.state import State


class CachingMemory:
    """Of one replay. torch, conf, driver: as of `cuda_caching`. total_bytes: of the card. values: of the program."""

    def __init__(self, torch: str, conf: str, driver: str, total_bytes: int, values: int) -> None:
        self.torch, self.conf, self.driver, self.total_bytes = torch, conf, driver, total_bytes
        self.rules = version.find(self.torch)
        self.settings = parse(self.conf, self.rules)
        self.blocks = 8 * values + 1024

    def empty(self) -> caching_state.Caching:
        """The allocator before the first request."""
        state = caching_state.new_state(self.blocks)
        settings.apply(self.settings, self.rules, self.total_bytes, state, find_driver(self.driver))
        return state

    def make_room(self) -> None:
        """Room for as many blocks as there can be: no replay runs out of rows, and begins anew.

        Between two free blocks of a segment lies one that is used; a segment has a megabyte or more.
        """
        self.blocks += 4 * (self.total_bytes >> 20)

    def grow(self) -> None:
        """The next empty one has room for twice as many blocks: a replay ran out of rows."""
        self.blocks *= 2

    def header(self, state: "State") -> dict[str, Any]:
        """The version, whose rules it has, settings and driver; peak of reserved bytes; how often it tried again."""
        K = state.caching.K
        return {
            "torch": self.torch,
            "torch_rules": self.rules.name,
            "alloc_conf": self.conf,
            "driver": self.driver,
            "peak_reserved_bytes": int(K[caching_state.K_RESERVED + 1]),
            "alloc_retries": int(K[caching_state.K_RETRIES]),
        }
