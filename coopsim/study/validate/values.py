"""What an iteration of the raw trace does to values, run once with unlimited memory."""

from itertools import groupby

from coopsim.base.types import Role
from coopsim.trace import Trace

_KEPT = {Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE}

Value = tuple[int, int]  # storage, version; -1, index for a temporary of the op that runs next or has just run


class TraceValues:
    """One iteration of the raw trace: what every op reads and writes, and until when the program holds each value."""

    def __init__(self, trace: Trace) -> None:
        self.bytes = trace.bytes.tolist()
        self.cost_ns = trace.cost_ns.tolist()
        self.step = trace.step.tolist()
        self.temporaries = [{i: n for i, n in enumerate(row) if n} for row in trace.temporaries.rows()]
        self.initial = {(s, 0) for s, alive in enumerate(trace.alive_at_start.tolist()) if alive and self.bytes[s]}
        self.reads: list[list[Value]] = []
        self.writes: list[list[Value]] = []
        self.until: dict[Value, int] = {}
        version = dict(self.initial)
        frees = zip(trace.freed_after.tolist(), trace.freed.tolist(), strict=True)
        freed_after = {op: [s for _, s in group] for op, group in groupby(frees, key=lambda free: free[0])}
        rows = zip(trace.reads.rows(), trace.mutates.rows(), trace.creates.rows(), strict=True)
        self._let_go(freed_after, -1, version)
        for op, (reads, mutates, creates) in enumerate(rows):
            reads, mutates, creates = (
                [s for s in dict.fromkeys(row) if self.bytes[s]] for row in (reads, mutates, creates)
            )
            self.reads.append([(s, version[s]) for s in dict.fromkeys(reads + mutates)])
            if creates or any(trace.role[s] != Role.BUFFER for s in mutates):  # statistics on the side make no version
                mutates = [s for s in mutates if trace.role[s] != Role.BUFFER]
            for s in mutates:
                self.until[s, version[s]] = op
                version[s] += 1
            version |= dict.fromkeys(creates, 0)
            self.writes.append([(s, version[s]) for s in mutates + creates])
            self._let_go(freed_after, op, version)
        becomes = trace.becomes.tolist()
        self.heir = {(s, last): (becomes[s], 0) for s, last in version.items() if becomes[s] >= 0}
        self.values = {value for values in (self.initial, *self.writes) for value in values}
        self.non_evictable = self.initial | set(self.heir)
        self.non_evictable |= {value for value in self.values if trace.role[value[0]] in _KEPT}
        self.stays = set(self.non_evictable)
        self.collectives = {op for op, ranks in enumerate(trace.peers.tolist()) if ranks}
        self.non_evictable |= {value for op in self.collectives for value in self.writes[op]}

    def _let_go(self, freed_after: dict[int, list[int]], op: int, version: dict[int, int]) -> None:
        for s in freed_after.get(op, ()):
            if self.bytes[s]:
                self.until[s, version.pop(s)] = op

    def size(self, op: int, value: Value) -> int:
        """Bytes of a value, or of a temporary of `op`; 0 if the trace has no such value."""
        storage, version = value
        if storage >= 0:
            return self.bytes[storage] if value in self.values else 0
        return self.temporaries[op].get(version, 0) if 0 <= op < len(self.temporaries) else 0


def name_of(value: Value) -> str:
    """What a schedule calls a value."""
    storage, version = value
    return f"s{storage}.{version}" if storage >= 0 else f"temporary {version}"
