"""Reads a schedule row by row beside the trace, and notes every fault."""

import bisect

from coopsim.base.types import Action, Outcome
from coopsim.study.validate.faults import Fault, Reason
from coopsim.study.validate.host import ValidatedHost
from coopsim.study.validate.memory import Content, JudgedBlock, ValidatedMemory
from coopsim.study.validate.values import TraceValues, Value, name_of
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

LIMIT = 20  #: faults after which the judge stops reading
GRANULE = {"arena": 512, "counter": 1, "cuda-caching": 512}
SEGMENTED = {"cuda-caching"}  #: memory is segments anywhere in the address space, not one region
_BEYOND = 1 << 62  #: an op that never comes


class Judge:
    """Knows, after every row, what the program has done and what memory holds."""

    def __init__(self, schedule: Schedule, trace: Trace) -> None:
        header = schedule.header
        self.program = TraceValues(trace)
        self.ok = header["outcome"] == Outcome.OK
        unsaved = header.get("choices", {}).get("dead") == "unsaved"  # what was missing may go again, though held
        self.only_once_dropped = {Action.FREE} if unsaved else {Action.FREE, Action.RELEASE}
        allocator = header["allocator"]
        self.memory = ValidatedMemory(header["budget_bytes"], GRANULE[allocator], allocator in SEGMENTED, self.fault)
        self.host = ValidatedHost(header, self.program, self.memory, self.fault)
        self.steps_per_iteration = trace.n_steps
        self.iterations = -(-header["steps"] // trace.n_steps)
        last = header["steps"] - (self.iterations - 1) * trace.n_steps
        self.ops_of_last_iteration = bisect.bisect_left(self.program.step, last)
        self.faults: list[Fault] = []
        self.seq = 0
        self.step = 0
        self.iteration = 0
        self.next_op = 0
        self.clock = 0
        self.cost_of_op = 0  # of the op just run, not yet on the clock
        self.inherited: dict[Value, Content] = {}  # what this iteration took over from the one before
        self.reserved: dict[Content, str] = {}  # allocated, and waiting for the op that makes it
        self.temporaries: dict[Content, str] = {}
        self.in_place: dict[Value, int] = {}  # outputs of the op just run that have no bytes yet: a move must follow
        self.renamed: dict[Value, Content] = {}  # values at the turn of the iteration whose move must follow

    # Names of values

    def content(self, value: Value) -> Content:
        return self.inherited.get(value, (self.iteration, *value))

    @property
    def n_ops(self) -> int:
        """Ops of this iteration; `--steps` may end inside the last one, and there are none after it."""
        if self.iteration < self.iterations - 1:
            return len(self.program.reads)
        return self.ops_of_last_iteration if self.iteration == self.iterations - 1 else 0

    def fault(self, reason: Reason, message: str) -> None:
        self.faults.append(Fault(reason, self.seq, message))

    # Rows

    def read(self, rows: list[tuple[int, ...]]) -> None:
        for self.seq, (action, step, op, storage, version, address, nbytes, time_ns, _) in enumerate(rows):
            value = (storage, version)
            if action != Action.MOVE or value not in self.in_place:  # a move in place is part of its op
                self.clock += self.cost_of_op
                self.cost_of_op = 0
            self.clock = self.waited(action, op, value)
            if time_ns != self.clock:
                self.fault(Reason.WRONG_TIME, f"at {time_ns} ns, but the ops run so far cost {self.clock} ns")
                self.clock = time_ns
            if step < self.step:
                self.fault(Reason.WRONG_ORDER, f"step {step} after step {self.step}")
            self.step = step
            if action in (Action.COMPUTE, Action.RECOMPUTE):
                self.run(op, step, first=action == Action.COMPUTE)
            elif action == Action.ALLOC:
                self.alloc(op, value, address, nbytes)
            elif action == Action.MOVE:
                self.move(value, address, nbytes)
            elif action in (Action.OFFLOAD, Action.FETCH, Action.DISCARD):
                self.copy(action, value, address)
            elif action != Action.REFUSE:  # a refusal changes nothing that a judge sees
                self.drop(Action(action), op, value, address, nbytes)
            if len(self.faults) >= LIMIT:
                return
        self.seq = len(rows)
        if self.ok:
            self.finish()

    def run(self, op: int, step: int, *, first: bool) -> None:
        self.end_moves()
        if first and self.next_op == self.n_ops:
            self.turn()
        self.end_turn()
        if not 0 <= op < len(self.program.reads):
            self.fault(Reason.WRONG_ORDER, f"the trace has no op {op}")
            return
        self.check_order(op, step, first=first)
        if first and op == self.iteration == 0:
            for value in sorted(self.program.initial):
                if self.program.until.get(value) != -1 and not self.host.has(self.content(value)):
                    self.fault(Reason.NO_ROOM, f"{name_of(value)} is alive at the start, but has no bytes")
        for name in self.temporaries.values():
            self.fault(Reason.LEAK, f"{name} outlives its op")
        self.find_inputs(op)
        self.write_outputs(op)
        if first:
            self.next_op = op + 1
        self.cost_of_op = self.program.cost_ns[op]

    def check_order(self, op: int, step: int, *, first: bool) -> None:
        """Ops of the program run in its order; one that has run may run again, for the next of them."""
        if first and op != self.next_op:
            due = f"op {self.next_op} is next" if self.next_op < self.n_ops else "all ops have run"
            self.fault(Reason.WRONG_ORDER, f"op {op} is computed where {due}")
        elif not first and op >= self.next_op:
            self.fault(Reason.WRONG_ORDER, f"op {op} is recomputed, but has not run in this iteration")
        elif not first and op in self.program.collectives:
            self.fault(Reason.COLLECTIVE, f"op {op} is recomputed, but it is a collective")
        served = op if first or self.next_op >= self.n_ops else self.next_op
        due_step = self.iteration * self.steps_per_iteration + self.program.step[served]
        if step != due_step:
            self.fault(Reason.WRONG_ORDER, f"op {op} runs in step {step}, not {due_step}")

    def find_inputs(self, op: int) -> None:
        for value in self.program.reads[op]:
            block = self.memory.where.get(self.content(value))
            if block is not None and block.made:
                continue
            others = [c for c in self.memory.where if c[0] >= 0 and c[1] == value[0]]
            if others:
                what = "its bytes are not written yet" if block else "of that storage only another version is in memory"
                self.fault(Reason.STALE_VERSION, f"op {op} reads {name_of(value)}, but {what}")
            else:
                self.fault(Reason.MISSING_INPUT, f"op {op} reads {name_of(value)}, which is not in memory")

    def write_outputs(self, op: int) -> None:
        for value in self.program.writes[op]:
            block = self.memory.where.get(self.content(value))
            if block is None:
                self.in_place[value] = op
            else:
                block.made = True
            self.reserved.pop(self.content(value), None)
        self.temporaries = {}
        for i in self.program.temporaries[op]:
            content = (-1, op, i)
            self.temporaries[content] = f"temporary {i} of op {op}"
            if self.reserved.pop(content, None) is None:
                self.fault(Reason.NO_ROOM, f"{self.temporaries.pop(content)} has no bytes")
            else:
                self.memory.where[content].made = True
        for content, name in self.reserved.items():
            self.memory.where[content].made = True
            self.fault(Reason.UNUSED, f"bytes were allocated for {name}, which op {op} does not make")
        self.reserved.clear()

    def alloc(self, op: int, value: Value, address: int, nbytes: int) -> None:
        self.end_moves()
        if self.next_op == self.n_ops:
            self.turn()
        self.end_turn()
        granule = self.memory.granule
        size = -(-self.program.size(op, value) // granule) * granule
        content = self.content(value) if value[0] >= 0 else (-1, op, value[1])
        name = name_of(value)
        if size == 0:
            self.fault(Reason.UNKNOWN_VALUE, f"bytes allocated for {name}, which op {op} does not make")
            return
        if nbytes != size:
            self.fault(Reason.WRONG_SIZE, f"{name} gets {nbytes} bytes, not {size}")
        if content in self.memory.where:
            self.fault(Reason.ALLOCATED_TWICE, f"{name} has bytes already")
            return
        initial = self.iteration == 0 and self.next_op == 0 and value in self.program.initial
        initial = initial and content not in self.host.copies
        if self.memory.put(JudgedBlock(address, nbytes, content, made=initial), name) and not initial:
            self.reserved[content] = name

    def drop(self, action: Action, op: int, value: Value, address: int, nbytes: int) -> None:
        self.begin()
        name = name_of(value)
        content = self.content(value) if value[0] >= 0 else (-1, op, value[1])
        block = self.memory.find(address, content, name)
        if block is None:
            return
        offloaded = action == Action.EVICT and content in self.host.copies
        if block.bytes != nbytes:
            self.fault(Reason.WRONG_SIZE, f"{name} has {block.bytes} bytes, not {nbytes}")
        if not block.made:
            self.fault(Reason.HALF_MADE, f"{name} goes before the op has run that makes it")
        elif action != Action.FREE and (value[0] < 0 or value in self.program.non_evictable) and not offloaded:
            self.fault(Reason.NOT_EVICTABLE, f"{name} must stay until it is freed")
        elif action in self.only_once_dropped and value[0] >= 0 and self.held(value):
            self.fault(Reason.TOO_EARLY, f"the program still holds {name} after op {self.next_op - 1}")
        self.reserved.pop(content, None)
        self.temporaries.pop(content, None)
        self.memory.remove(block)

    def held(self, value: Value) -> bool:
        """Whether the program holds the value still, after the ops that have run in this iteration."""
        return self.next_op < self.n_ops and self.next_op <= self.program.until.get(value, _BEYOND)

    def move(self, value: Value, address: int, nbytes: int) -> None:
        name = name_of(value)
        if value in self.in_place:
            del self.in_place[value]
            before, now = self.content((value[0], value[1] - 1)), self.content(value)
        else:
            self.end_moves()
            if self.next_op == self.n_ops:
                self.turn()
            if value not in self.renamed:
                self.fault(Reason.UNKNOWN_VALUE, f"{name} takes over bytes, though nothing hands it any")
                return
            before = now = self.renamed.pop(value)
        block = self.memory.find(address, before, f"what becomes {name}")
        if block is None:
            return
        if block.bytes != nbytes:
            self.fault(Reason.WRONG_SIZE, f"{name} has {block.bytes} bytes, not {nbytes}")
        self.memory.rewrite(block, now)

    def waited(self, action: int, op: int, value: Value) -> int:
        """The time once an eviction has waited for the copy to the host, or an op for the fetches of its inputs."""
        if action == Action.EVICT and value[0] >= 0:
            return max(self.clock, self.host.whole_at(self.content(value)))
        if action in (Action.COMPUTE, Action.RECOMPUTE) and 0 <= op < len(self.program.reads):
            return max(self.clock, self.host.fetched_at(map(self.content, self.program.reads[op])))
        return self.clock

    def copy(self, action: int, value: Value, address: int) -> None:
        self.begin()
        content = self.content(value)
        if action == Action.OFFLOAD:
            self.host.offload(value, content, address, self.clock)
        elif action == Action.FETCH:
            is_new = self.reserved.pop(content, None) is not None
            self.host.fetch(value, content, address, self.clock, is_new=is_new)
        else:
            self.host.discard(value, content, held=self.held(value))

    # Turns

    def end_moves(self) -> None:
        """The moves that follow an op are over: every output must have its bytes."""
        for value, op in self.in_place.items():
            self.fault(Reason.NO_ROOM, f"op {op} makes {name_of(value)}, which has no bytes")
        self.in_place.clear()

    def begin(self) -> None:
        """A row without an op of its own: of the next iteration if its step is."""
        self.end_moves()
        if self.next_op == self.n_ops and self.step >= (self.iteration + 1) * self.steps_per_iteration:
            self.turn()
        self.end_turn()

    def end_turn(self) -> None:
        """The moves at the turn of an iteration are over: every value must have its new name."""
        for value in self.renamed:
            self.fault(Reason.NOT_HANDED_ON, f"{name_of(value)} of the next iteration takes over no bytes")
        self.renamed.clear()

    def turn(self) -> None:
        """The end of an iteration: only what is handed on may be left, and all of it must be there."""
        program = self.program
        heirs = {heir: self.content(last) for last, heir in program.heir.items()}
        whole = self.n_ops == len(program.reads)
        handed_on = set(heirs.values()) if whole else set(self.memory.where) - set(self.temporaries)
        for content in sorted(self.memory.where.keys() - handed_on):
            name = self.temporaries.get(content) or f"version {content[2]} of storage {content[1]}"
            self.fault(Reason.LEAK, f"{name} is left in memory")
        if whole:
            self.host.turn(handed_on)
            for heir, content in heirs.items():
                if not self.host.has(content):
                    self.fault(Reason.NOT_HANDED_ON, f"the next iteration needs {name_of(heir)}, not in memory")
            renamed = {heir for last, heir in program.heir.items() if last != heir}
            self.renamed = {
                heir: content for heir, content in heirs.items() if heir in renamed and content in self.memory.where
            }
        self.inherited = heirs
        self.iteration += 1
        self.next_op = 0

    def finish(self) -> None:
        """The replay says that it came to the end: it must have."""
        self.end_moves()
        if self.iteration < self.iterations and self.next_op == self.n_ops:
            self.turn()
        self.end_turn()
        if self.iteration < self.iterations:
            done = self.iteration * self.steps_per_iteration + self.program.step[self.next_op]
            self.fault(Reason.UNFINISHED, f"ends before op {self.next_op} of step {done}")
