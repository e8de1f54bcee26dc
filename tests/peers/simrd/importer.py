"""Make a trace of a DTR log. README.md says what becomes of what.

Every tensor of the log is a storage of the trace: one with bytes, or a view, which has none. An op that updates in
place makes fresh copies of what it updates, as simrd has it. What simrd needs and the rows do not say (which storages
are views, and of which; what is kept at the end, in which order) is under `simrd` in the header.
"""

import re
from pathlib import Path
from typing import Any

from coopsim.base.types import Phase, Role
from coopsim.trace import Trace, TraceBuilder
from tests.peers.simrd.log import (
    Backward,
    Bind,
    Constant,
    Instruction,
    LogCall,
    LogError,
    LogRelease,
    Mutate,
    read,
)

FACTS_VERSION = 1
_LOG_NAME = re.compile(r"-[\d.]+(-\d+){6}-\w+$")  # budget, date, time and mode, which DTR's logger appends


def import_log(path: str | Path) -> Trace:
    """The trace of a log (plain, .gz or .zst). Raises LogError with the line if the log is malformed."""
    return _Importer(str(path)).run(read(path))


class _Importer:
    """Follows the names through the log. A tensor is known by its storage in the trace, its `root` owns the bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.builder = TraceBuilder()
        self.root: list[int] = []  # of each tensor
        self.nbytes: list[int] = []  # of its storage, views included
        self.constant: list[bool] = []  # of its storage
        self.refs: list[int] = []  # names of each tensor
        self.holds: list[int] = []  # names of all tensors of a storage
        self.bound: dict[str, int] = {}  # names in order of their first appearance
        self.started = False  # whether an op or a free has come
        self.phase = Phase.FORWARD
        self.used = self.peak = self.constants = 0  # bytes if dead constants go too, what DTR calls the baseline

    def run(self, instructions: list[Instruction]) -> Trace:
        for instruction in instructions:
            match instruction:
                case Constant():
                    self._constant(instruction)
                case LogCall(line, op, args, results, cost_ns):
                    tensors = [self._tensor(line, name) for name in args]
                    made = [(name, nbytes, tensors[alias] if alias >= 0 else -1) for name, nbytes, alias in results]
                    self._op(line, op, tensors, made, cost_ns)
                case Mutate():
                    self._mutate(instruction)
                case Bind(line, name, source, anew):
                    old = self._tensor(line, name) if anew else -1
                    tensor = self._tensor(line, source)
                    if not anew:
                        self._must_be_new(line, name)
                    self.bound[name] = tensor
                    self._hold(tensor)
                    if old >= 0:
                        self._let_go(line, old)
                case LogRelease(line, name):
                    if name in self.bound:  # simrd passes over names from before START
                        self._let_go(line, self.bound[name])
                case Backward():
                    self.phase = Phase.BACKWARD
        return self.builder.build(self._header())

    def _fail(self, line: int, why: str) -> LogError:
        return LogError(f"{self.path}, line {line}: {why}")

    def _tensor(self, line: int, name: str) -> int:
        if name not in self.bound:
            raise self._fail(line, f"unknown tensor {name}")
        tensor = self.bound[name]
        if self.refs[tensor] == 0 or self.holds[self.root[tensor]] == 0:
            raise self._fail(line, f"tensor {name} is used after its release")
        return tensor

    def _must_be_new(self, line: int, name: str) -> None:
        if name in self.bound:
            raise self._fail(line, f"tensor {name} exists already")

    def _new(self, name: str, nbytes: int, view_of: int = -1, *, constant: bool = False, role: str = "") -> int:
        tensor = self.builder.storage(
            0 if view_of >= 0 else nbytes, role or Role.ACTIVATION, alive_at_start=constant and not self.started
        )
        root = self.root[view_of] if view_of >= 0 else tensor
        self.root.append(root)
        self.nbytes.append(self.nbytes[root] if view_of >= 0 else nbytes)
        self.constant.append(self.constant[root] if view_of >= 0 else constant)
        self.refs.append(0)
        self.holds.append(0)
        self.bound[name] = tensor
        self._hold(tensor)
        return tensor

    def _hold(self, tensor: int) -> None:
        self.refs[tensor] += 1
        self.holds[self.root[tensor]] += 1

    def _let_go(self, line: int, tensor: int) -> None:
        if self.refs[tensor] == 0:
            raise self._fail(line, "a tensor is released more often than it is held")
        root = self.root[tensor]
        self.refs[tensor] -= 1
        self.holds[root] -= 1
        if self.holds[root] == 0:
            self.used -= self.nbytes[root]
            if not self.constant[root]:  # DTR never lets go of those
                self.builder.free(root)
                self.started = True

    def _constant(self, c: Constant) -> None:
        self._must_be_new(c.line, c.name)
        role = Role.BUFFER if self.started else Role.PARAMETER
        tensor = self._new(c.name, c.nbytes, constant=True, role=role)
        if self.started:  # it comes when it comes; a role that no policy evicts
            self.builder.op("constant", creates=[tensor], phase=self.phase)
        self.constants += c.nbytes
        self._grow(c.nbytes)

    def _op(self, line: int, op: str, args: list[int], made: list[tuple[str, int, int]], cost_ns: int) -> list[int]:
        self.started = True
        if "backward" in op:
            self.phase = Phase.BACKWARD
        for name, _, _ in made:
            self._must_be_new(line, name)
        creates = [self._new(name, nbytes, view_of) for name, nbytes, view_of in made]
        roots = dict.fromkeys(self.root[a] for a in args if self.root[a] != a)
        self.builder.op(op, reads=[*args, *roots], creates=creates, cost_ns=cost_ns, phase=self.phase)
        self._grow(sum(nbytes for _, nbytes, view_of in made if view_of < 0))
        return creates

    def _mutate(self, m: Mutate) -> None:
        args = [self._tensor(m.line, name) for name in m.args]
        if len({args[k] for k in m.mutated}) < len(m.mutated):
            raise self._fail(m.line, f"{m.op} updates one tensor twice")
        # The copies have no name yet: their owners' names are bound to them once the op has run.
        made = [(f"{m.line}/{k}", self.nbytes[args[k]], -1) for k in m.mutated]
        creates = self._op(m.line, m.op, args, made, m.cost_ns)
        for (unnamed, _, _), k, tensor in zip(made, m.mutated, creates, strict=True):
            del self.bound[unnamed]
            self.bound[m.args[k]] = tensor
            self._let_go(m.line, args[k])

    def _grow(self, nbytes: int) -> None:
        self.used += nbytes
        self.peak = max(self.peak, self.used)

    def _header(self) -> dict[str, Any]:
        name = Path(self.path).name.removesuffix(".zst").removesuffix(".gz").removesuffix(".log")
        kept = dict.fromkeys(t for t in self.bound.values() if self.refs[t] > 0 and not self.constant[t])
        return {
            "model": _LOG_NAME.sub("", name),
            "log": name,
            "cost_source": "recorded by DTR's prototype",
            "simrd": {
                "version": FACTS_VERSION,
                "views": [[t, root] for t, root in enumerate(self.root) if root != t],
                "kept": list(kept),
                "baseline_peak_bytes": self.peak,
            },
        }
