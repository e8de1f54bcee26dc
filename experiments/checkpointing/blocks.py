"""A recorded step as it would be with `torch.utils.checkpoint` around its first blocks, made from its trace.

A block is a run of ops in the forward pass of one numbered module, such as `encoder.layer.3`; a module that is called
several times in a row makes several. Checkpointing keeps what goes into a block, and what leaves it: all else that it
has made is freed at its end, and made again, by the same ops in their order, when the backward pass first asks for some
of it. As in PyTorch, recomputation stops with the last value that is needed. Blocks are taken whole, never nested.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from coopsim.base.types import Phase
from coopsim.trace import Trace
from coopsim.trace.build import TraceBuilder

_HELD = 8  #: ops after its last use at which a storage is still freed by autograd, and not by the program


@dataclass(frozen=True)
class Block:
    """Ops `first` to `last`, the forward pass of a module."""

    module: str
    first: int
    last: int


def levels(trace: Trace) -> dict[int, list[Block]]:
    """The blocks by how many numbers are in their modules' names: 1 for `encoder.layer.3`, 2 for `stages.0.layers.1`.

    In the order of the forward pass; where there are two or more.
    """
    depths = range(1, 1 + max((sum(map(str.isdigit, module.split("."))) for module in set(trace.module)), default=0))
    found = {depth: list(_blocks(trace, depth)) for depth in depths}
    return {depth: blocks for depth, blocks in found.items() if len(blocks) > 1}


def _blocks(trace: Trace, depth: int) -> Iterator[Block]:
    def of(op: int) -> tuple[int, str]:
        return int(trace.step[op]), _cut(trace.module[op], depth) if trace.phase[op] == Phase.FORWARD else ""

    for (_, module), run in groupby(range(trace.n_ops), of):
        if module:
            yield from _calls(trace, module, list(run))


def _cut(module: str, depth: int) -> str:
    """The module's name up to its number of that count, "" if it has fewer."""
    parts = module.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[depth - 1] + 1]) if len(numbers) >= depth else ""


def _calls(trace: Trace, module: str, run: list[int]) -> Iterator[Block]:
    """The calls of one module, several in a row."""
    names = [(trace.name[op], trace.module[op]) for op in run]
    n = len(run)
    period = next((p for p in range(1, n // 2 + 1) if n % p == 0 and names == names[:p] * (n // p)), n)
    if period < 4:  # ops that are alike, in one call
        period = n
    for i in range(0, n, period):
        yield Block(module, run[i], run[i + period - 1])


def checkpointed(trace: Trace, blocks: list[Block]) -> Trace:
    """The step with these blocks checkpointed. They must not overlap."""
    return _Rewrite(trace, blocks).build()


class _Rewrite:
    """The new program, op by op, and what lives how long in it."""

    def __init__(self, trace: Trace, blocks: list[Block]) -> None:
        self.trace, self.blocks = trace, blocks
        self.reads, self.mutates, self.creates = trace.reads.rows(), trace.mutates.rows(), trace.creates.rows()
        self.block_of = {s: b for b in blocks for op in range(b.first, b.last + 1) for s in self.creates[op]}
        self.freed_after = {int(s): int(op) for s, op in zip(trace.freed, trace.freed_after, strict=True)}
        self.last_use: dict[int, int] = {}
        for op in range(trace.n_ops):
            for s in (*self.reads[op], *self.mutates[op], *self.creates[op]):
                self.last_use[s] = op
        self.read_forward: dict[int, list[int]] = {}  # ops of the forward pass
        for op in range(trace.n_ops):
            if trace.phase[op] == Phase.FORWARD:
                for s in self.reads[op]:
                    self.read_forward.setdefault(s, []).append(op)
        self.again = self._needed()
        #: ops of the new program: the op of the trace, and is it run again?
        self.program: list[tuple[int, bool]] = []

    def _needed(self) -> dict[Block, set[int]]:
        """What each block must make again: what the backward pass reads."""
        needed: dict[Block, set[int]] = {b: set() for b in self.blocks}
        for op in range(self.trace.n_ops):
            if self.trace.phase[op] != Phase.FORWARD:
                for s in self._of_blocks(op):
                    needed[self.block_of[s]].add(s)
        return needed

    def _of_blocks(self, op: int) -> list[int]:
        """What an op of the backward pass takes from recomputed blocks: a block's result only if it is its own."""
        taken = []
        for s in (*self.reads[op], *self.mutates[op]):
            block = self.block_of.get(s)
            if block is not None and (not self._leaves(s, block) or self._same(op, block)):
                taken.append(s)
        return taken

    def _leaves(self, s: int, block: Block) -> bool:
        """Do later ops of the forward pass read it?"""
        return any(op > block.last for op in self.read_forward.get(s, ()))

    def _same(self, op: int, block: Block) -> bool:
        return f"{self.trace.module[op]}.".startswith(f"{block.module}.")

    def build(self) -> Trace:
        trace = self.trace
        started: set[Block] = set()
        for op in range(trace.n_ops):
            if trace.phase[op] != Phase.FORWARD:
                for s in self._of_blocks(op):
                    block = self.block_of[s]
                    if block not in started:
                        started.add(block)
                        self.program += [(again, True) for again in self._made_again(block)]
            self.program.append((op, False))
        return self._write()

    def _made_again(self, block: Block) -> range:
        needed = self.again[block]
        ops = range(block.first, block.last + 1)
        stop = max(op for op in ops if needed & {*self.creates[op], *self.mutates[op]})
        return range(block.first, stop + 1)

    def _write(self) -> Trace:
        trace, b = self.trace, TraceBuilder()
        for s in range(trace.n_storages):
            b.storage(int(trace.bytes[s]), trace.role[s], alive_at_start=bool(trace.alive_at_start[s]))
        copies: dict[int, int] = {}
        rows = []
        for op, again in self.program:
            forward = trace.phase[op] == Phase.FORWARD
            if again:
                for s in self.creates[op]:
                    copies[s] = b.storage(int(trace.bytes[s]), trace.role[s])
            taken = set() if forward else set(self._of_blocks(op))

            def now(s: int, again: bool = again, taken: set[int] = taken) -> int:
                return copies.get(s, s) if again or s in taken else s

            rows.append([[now(s) for s in part[op]] for part in (self.reads, self.mutates, self.creates)])
        free = self._frees(rows)
        for s in free.get(-1, []):
            b.free(s)
        step = 0
        for i, ((op, _), (reads, mutates, creates)) in enumerate(zip(self.program, rows, strict=True)):
            if int(trace.step[op]) > step:
                step = int(trace.step[op])
                b.next_step()
            b.op(
                trace.name[op], reads=reads, mutates=mutates, creates=creates, temporaries=trace.temporaries[op],
                cost_ns=int(trace.cost_ns[op]), phase=trace.phase[op], module=trace.module[op],
                random=bool(trace.random[op]),
            )  # fmt: skip
            for s in free.get(i, []):
                b.free(s)
        return b.build(dict(trace.header))

    def _frees(self, rows: list[list[list[int]]]) -> dict[int, list[int]]:
        """What is freed after which op of the new program."""
        at = {op: i for i, (op, again) in enumerate(self.program) if not again} | {-1: -1}
        last: dict[int, int] = {}
        for i, row in enumerate(rows):
            last |= {s: i for part in row for s in part}
        when: dict[int, int] = {}
        for s, op in self.freed_after.items():
            by_program = s not in self.block_of or op > self.last_use.get(s, -1) + _HELD
            when[s] = max(at[op] if by_program else -1, last.get(s, -1))
        when |= {s: i for s, i in last.items() if s >= self.trace.n_storages}  # made again
        free: dict[int, list[int]] = {}
        for s, i in when.items():
            free.setdefault(i, []).append(s)
        return free
