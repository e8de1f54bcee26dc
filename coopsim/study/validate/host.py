"""The host of the judge: which contents it has a copy of, and when each copy ends, by the rates in the header."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coopsim.study.validate.faults import Reason
from coopsim.study.validate.memory import Content, ValidatedMemory
from coopsim.study.validate.values import TraceValues, Value, name_of


@dataclass(slots=True)
class Copy:
    """A copy on the host: of a block of so many bytes, whole from this time on."""

    bytes: int
    whole: int


class ValidatedHost:
    """Both engines and the host's memory. In a schedule without a link nothing is ever copied."""

    def __init__(
        self, header: Any, program: TraceValues, memory: ValidatedMemory, fault: Callable[[Reason, str], None]
    ) -> None:
        self.header, self.program, self.memory, self.fault = header, program, memory, fault
        self.state_too = header.get("choices", {}).get("offload_state") == "yes"
        self.copies: dict[Content, Copy] = {}
        self.fetched: dict[Content, int] = {}  # when the last fetch of a content ends
        self.used = 0
        self.free_at = {"out": 0, "in": 0}

    def whole_at(self, content: Content) -> int:
        """When the copy to the host of what is evicted now has ended."""
        return self.copies[content].whole if content in self.copies else 0

    def fetched_at(self, contents: Iterable[Content]) -> int:
        """When the copies from there of all of these have ended."""
        return max([self.fetched.get(c, 0) for c in contents], default=0)

    def has(self, content: Content) -> bool:
        """Whether the content is in memory, or at least here."""
        return content in self.memory.where or content in self.copies

    def offload(self, value: Value, content: Content, address: int, now: int) -> None:
        """A copy begins to be made."""
        name = name_of(value)
        block = self.memory.find(address, content, name)
        if "link" not in self.header:
            self.fault(Reason.BAD_HEADER, f"{name} is offloaded, but the header names no link")
        elif block is None:
            return
        elif not block.made:
            self.fault(Reason.HALF_MADE, f"{name} is offloaded before the op has run that makes it")
        elif value[0] < 0 or (value in self.program.stays and not self.state_too):
            self.fault(Reason.NOT_OFFLOADABLE, f"{name} is offloaded, but may not be")
        elif content in self.copies:
            self.fault(Reason.COPIED_TWICE, f"the host has a copy of {name} already")
        else:
            self.copies[content] = Copy(block.bytes, self._copy(block.bytes, now, "out", "in"))
            self.used += block.bytes
            limit = self.header["host_memory_bytes"]
            if limit is not None and self.used > limit:
                self.fault(
                    Reason.OVER_HOST_MEMORY, f"with {name} copies have {self.used} bytes of the host, of {limit}"
                )

    def fetch(self, value: Value, content: Content, address: int, now: int, *, is_new: bool) -> None:
        """A copy goes back to new bytes. A fault if there is none, only one of another version, or a half one."""
        name = name_of(value)
        block = self.memory.find(address, content, name)
        copy = self.copies.get(content)
        if block is None:
            return
        if not is_new:
            self.fault(Reason.ALLOCATED_TWICE, f"{name} is fetched, but not to bytes that were just allocated for it")
        if copy is None and any(c[1] == content[1] for c in self.copies):
            self.fault(Reason.STALE_COPY, f"{name} is fetched, but the host's copy is of another version")
        elif copy is None:
            self.fault(Reason.NOT_ON_HOST, f"{name} is fetched, but the host has no copy")
        elif now < copy.whole:
            self.fault(Reason.HALF_COPIED, f"{name} is fetched at {now} ns, but its copy ends at {copy.whole} ns")
        block.made = True
        if copy is not None:
            self.fetched[content] = self._copy(block.bytes, now, "in", "out")

    def discard(self, value: Value, content: Content, *, held: bool) -> None:
        """A copy goes. held: the program holds the value still."""
        copy = self.copies.pop(content, None)
        if copy is None:
            self.fault(Reason.NOT_ON_HOST, f"the copy of {name_of(value)} is discarded, but the host has none")
            return
        self.used -= copy.bytes
        if held and value in self.program.non_evictable and content not in self.memory.where:
            self.fault(Reason.ONLY_COPY, f"the only copy of {name_of(value)} is discarded, which nothing makes again")

    def turn(self, handed_on: Iterable[Content]) -> None:
        """The end of a whole iteration: only what is handed on may be left."""
        for content in sorted(self.copies.keys() - set(handed_on)):
            self.fault(Reason.LEAK, f"a copy of version {content[2]} of storage {content[1]} is left on the host")

    def _copy(self, nbytes: int, now: int, mine: str, other: str) -> int:
        """Give a copy to an engine. Returns when it ends."""
        rate, shared_rate = self.header["rate_mb_s"], self.header["shared_rate_mb_s"]
        start = max(now, self.free_at[mine])
        took = self.header["latency_ns"] + -(-nbytes * 1000 // rate)
        shared = max(self.free_at[other] - start, 0)
        if shared_rate and -(-took * rate // shared_rate) <= shared:
            took = -(-took * rate // shared_rate)
        else:
            took += shared - shared * shared_rate // rate
        self.free_at[mine] = start + took
        return self.free_at[mine]
