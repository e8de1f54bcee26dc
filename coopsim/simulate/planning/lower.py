"""Lower a trace to a program: versions of storages become values, the trace's rows become arrays for the kernels.

docs/replay.md says what each rule is for.
"""

import weakref
from collections.abc import Iterable
from itertools import chain

import numpy as np

from coopsim.base.types import CostModel, InPlace, Pinning, Role
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.program import NEVER, Drops, Program, cost_classes, decision_cost, without_collections
from coopsim.trace.measure import round_up, saved_for_backward
from coopsim.trace.table import Trace

KEPT_ROLES = {Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE}
_UPDATED_IN_PLACE: dict[InPlace, set[Role]] = {  # roles
    InPlace.COPY: set(),
    InPlace.COPY_OUTPUTS: KEPT_ROLES - {Role.GRADIENT},
    InPlace.RECOMPUTABLE: set(Role),
    InPlace.FIRST_RUN: set(Role),
}
# OneFlow's "high" group {conv2d, conv_data_grad, conv_filter_grad, add_n, matmul, batch_matmul}, as aten overload
# names.
_EXPENSIVE = (
    "aten.convolution",
    "aten.cudnn_convolution",
    "aten.mm.",
    "aten.addmm.",
    "aten.bmm.",
    "aten.baddbmm.",
    "aten.add.Tensor",
)


_cache: "weakref.WeakKeyDictionary[Trace, dict[tuple[object, ...], Program]]" = weakref.WeakKeyDictionary()


def lower(
    trace: Trace,
    *,
    in_place: InPlace,
    pinning: Pinning,
    granule: int,
    cost_model: CostModel = CostModel.COST,
    keep_random: bool = False,
    counted: bool = False,
    spare: tuple[int, ...] = (),
    held: frozenset[int] = frozenset(),
) -> Program:
    """The program of a trace; kept as long as the trace is, because sweeps ask for the same ones again and again.

    counted: values go for good when no op that could run again reads them (`release = counted`). spare: of each op,
    bytes that nothing else may take while it runs, as of one temporary more; (): none. held: storages that the last op
    reads, too. Of programs with spare bytes only those are kept with the same ones as the last.
    """
    key = (spare, held, in_place, pinning, granule, cost_model, keep_random, counted)
    programs = _cache.setdefault(trace, {})
    if key not in programs:
        for other in [other for other in programs if spare and other[0] not in ((), spare)]:
            del programs[other]
        with without_collections():
            lowering = _Lowering(trace, in_place, pinning, granule, cost_model, keep_random, spare, held)
            programs[key] = lowering.program(counted)
    return programs[key]


def _flat(rows: Iterable[list[int]]) -> s.Array:
    return np.fromiter(chain.from_iterable(rows), np.int64)


class _Lowering:
    """One pass over the trace that names values, then the rules that need to look ahead or back."""

    def __init__(
        self,
        trace: Trace,
        in_place: InPlace,
        pinning: Pinning,
        granule: int,
        cost_model: CostModel,
        keep_random: bool,
        spare: tuple[int, ...],
        held: frozenset[int],
    ) -> None:
        self.spare_bytes, self.held = spare or (0,) * trace.n_ops, held
        self.trace, self.in_place, self.pinning, self.keep_random = trace, in_place, pinning, keep_random
        self.updated_in_place = [role in _UPDATED_IN_PLACE[in_place] for role in trace.role]
        self.size = round_up(trace.bytes, granule).tolist()
        self.granule = granule
        self.decide = decision_cost(trace, cost_model)
        self.storage: list[int] = []
        self.version: list[int] = []
        self.nbytes: list[int] = []
        self.producer: list[int] = []
        self.older: list[int] = []
        self.current: dict[int, int] = {}  # storage -> its current value
        self.ins: list[list[int]] = []
        self.outs: list[list[int]] = []
        self.temps: list[list[int]] = []
        self.spare: list[int] = []
        self.drops: list[tuple[int, int]] = []  # (op it comes after, value), in program order
        self.drops_as_recorded: set[int] = set()  # non-evictable values that are not kept for recomputations
        self.initial = [
            self._value(storage, 0, -1, -1)
            for storage in np.flatnonzero(trace.alive_at_start).tolist()
            if self.size[storage] > 0
        ]
        self._name_values()
        self._hand_on()

    def _value(self, storage: int, version: int, producer: int, older: int) -> int:
        self.storage.append(storage)
        self.version.append(version)
        self.nbytes.append(self.size[storage])
        self.producer.append(producer)
        self.older.append(older)
        self.current[storage] = len(self.storage) - 1
        return self.current[storage]

    def _name_values(self) -> None:
        trace, size = self.trace, self.size
        buffers = [r == Role.BUFFER for r in trace.role]
        lists = zip(trace.reads, trace.mutates, trace.creates, trace.temporaries, strict=True)
        freed, freed_after = trace.freed.tolist(), trace.freed_after.tolist()
        free = 0
        for op in range(-1, trace.n_ops):
            if op >= 0:
                reads, mutates, creates, temporaries = next(lists)
                if self.held and op == trace.n_ops - 1:
                    reads = sorted({*reads, *self.held})
                changed = [storage for storage in dict.fromkeys(mutates) if size[storage] > 0]
                made = [storage for storage in dict.fromkeys(creates) if size[storage] > 0]
                used = [storage for storage in dict.fromkeys(reads + mutates) if size[storage] > 0]
                self.ins.append([self.current[storage] for storage in used])
                if made or not all(buffers[storage] for storage in changed):
                    changed = [storage for storage in changed if not buffers[storage]]  # statistics on the side
                olds = [self.current[storage] for storage in changed]
                self.outs.append(
                    [self._value(storage, self.version[u] + 1, op, u) for storage, u in zip(changed, olds, strict=True)]
                    + [self._value(storage, 0, op, -1) for storage in made]
                )
                self.temps.append([self._temporary(op, k, n) for k, n in enumerate(temporaries) if n > 0])
                if self.spare_bytes[op] > 0:
                    self.spare.append(self._temporary(op, len(temporaries), self.spare_bytes[op]))
                    self.temps[-1].append(self.spare[-1])
                self.drops += [(op, u) for u in olds]
            while free < len(freed) and freed_after[free] == op:
                if size[freed[free]] > 0:
                    self.drops.append((op, self.current.pop(freed[free])))
                free += 1

    def _temporary(self, op: int, k: int, nbytes: int) -> int:
        self.storage.append(-1)
        self.version.append(k)
        self.nbytes.append(round_up(nbytes, self.granule))
        self.producer.append(op)
        self.older.append(-1)
        return len(self.storage) - 1

    def _hand_on(self) -> None:
        """What is alive at the end becomes a value of the start, or is dropped after the last op."""
        first = {self.storage[v]: v for v in self.initial}
        becomes = self.trace.becomes.tolist()
        self.carry = [
            (v, first[becomes[storage]]) for storage, v in sorted(self.current.items()) if becomes[storage] >= 0
        ]
        self.drops += [(self.trace.n_ops - 1, v) for storage, v in sorted(self.current.items()) if becomes[storage] < 0]

    def _used_up(self) -> int:
        trace = self.trace
        heirs = set(trace.becomes.tolist())
        used = set(trace.reads.values.tolist()) | set(trace.mutates.values.tolist())
        alive = np.flatnonzero(trace.alive_at_start & (trace.bytes > 0)).tolist()
        return next((storage for storage in alive if storage in used and storage not in heirs), -1)

    def _non_evictable(self) -> list[bool]:
        """Which values no search may choose."""
        trace = self.trace
        kept_role = [r in KEPT_ROLES for r in trace.role]
        random = trace.random.tolist()
        non_evictable = [
            p < 0 or storage < 0 or kept_role[storage] or (self.keep_random and random[p])
            for storage, p in zip(self.storage, self.producer, strict=True)
        ]
        for v, _ in self.carry:
            non_evictable[v] = True
        self._fix_what_would_be_lost(non_evictable)
        return non_evictable

    def _fix_what_would_be_lost(self, non_evictable: list[bool]) -> None:
        """By in-place updates, unless the policy allows it; and because a collective is never run again."""
        n, peers = len(non_evictable), self.trace.peers.tolist()
        last_use, updated, gone = [-1] * n, [NEVER] * n, [NEVER] * n
        for op, ins in enumerate(self.ins):
            for v in ins:
                last_use[v] = op
        for v, u in enumerate(self.older):
            if u >= 0 and self.updated_in_place[self.storage[u]]:
                updated[u] = self.producer[v]
        destroyed = updated if self.pinning == Pinning.SOUND else [NEVER] * n
        dropped = [NEVER] * n
        for op, v in self.drops:
            dropped[v] = op
        expiry, lost = [NEVER] * n, [NEVER] * n
        for op, outs in enumerate(self.outs):
            first_update = min((destroyed[i] if non_evictable[i] else expiry[i] for i in self.ins[op]), default=NEVER)
            first_drop = min((gone[i] if non_evictable[i] else lost[i] for i in self.ins[op]), default=NEVER)
            for v in outs:
                expiry[v], lost[v] = first_update, first_drop
                if peers[op] or last_use[v] > first_drop:
                    self.drops_as_recorded.add(v)
                    gone[v] = dropped[v]
                    non_evictable[v] = True
                elif updated[v] < destroyed[v]:  # from then on it has to be made again
                    gone[v] = max(updated[v], first_drop)
                non_evictable[v] = non_evictable[v] or last_use[v] > first_update

    def _events(self, non_evictable: list[bool], counted: bool) -> s.Array:
        drops = Drops(self.ins, self.outs, non_evictable, self.drops)
        if counted:
            drops.count_references(self.initial, self._stands_for(), self._disabled(), self.drops_as_recorded)
        else:
            drops.postpone(self.drops_as_recorded)
        return drops.events(self.trace.step.tolist())

    def _disabled(self) -> set[int]:
        """Values whose eviction OneFlow disables: by role, or as no op makes them."""
        roles = [role in KEPT_ROLES for role in self.trace.role]
        values = enumerate(zip(self.storage, self.producer, strict=True))
        return {v for v, (storage, producer) in values if storage >= 0 and (producer < 0 or roles[storage])}

    def _stands_for(self) -> list[int]:
        """Of each value the first of its versions, if it is one that is updated in place and never evicted."""
        first = list(range(len(self.storage)))
        for v, u in enumerate(self.older):
            storage = self.storage[v]
            if u >= 0 and self.updated_in_place[storage] and self.trace.role[storage] in KEPT_ROLES:
                first[v] = first[u]
        return first

    def program(self, counted: bool) -> Program:
        trace, n_ops = self.trace, self.trace.n_ops
        non_evictable = self._non_evictable()
        saved = saved_for_backward(trace)
        expensive = [name.startswith(_EXPENSIVE) for name in trace.name]
        values = np.zeros((len(self.storage), s.V_STATIC), np.int64)
        each, ins = np.arange(n_ops), _flat(self.ins)
        n_ins, n_outs, n_temps = ([len(row) for row in rows] for rows in (self.ins, self.outs, self.temps))
        users = np.repeat(each, n_ins)
        values[:, s.USES_END] = np.bincount(ins, minlength=len(values)).cumsum()
        values[1:, s.USES] = values[:-1, s.USES_END]
        producer = np.array(self.producer, np.int64)
        made = producer >= 0
        values[:, s.BYTES] = self.nbytes
        values[:, s.PRODUCER] = producer
        values[:, s.EVICTABLE] = [not f for f in non_evictable]
        values[:, s.EXPENSIVE] = [
            s.CHEAP if p < 0 or not expensive[p] else s.COSTLY if storage >= 0 else s.WORKSPACE
            for storage, p in zip(self.storage, self.producer, strict=True)
        ]
        values[:, s.OLDER] = self.older
        values[:, s.IN_PLACE] = [u >= 0 and self.updated_in_place[self.storage[u]] for u in self.older]
        values[:, s.SAVED] = [storage in saved for storage in self.storage]
        values[made, s.OWN] = self.decide[producer[made]]
        movable = np.flatnonzero(values[:, s.EVICTABLE])
        names = [trace.name[p] for p in producer[movable].tolist()]
        values[movable, s.COST_CLASS] = cost_classes(
            names, values[movable, s.OWN].tolist(), values[movable, s.BYTES].tolist()
        )
        ops = np.zeros((n_ops + 1, s.O_COLUMNS), np.int64)
        ops[:n_ops, s.COST] = trace.cost_ns
        ops[:n_ops, s.DECIDE] = self.decide
        ops[1:, s.INS] = np.cumsum(n_ins)
        ops[1:, s.OUTS] = np.cumsum(n_outs) + np.cumsum(n_temps)
        ops[:n_ops, s.TEMPS] = ops[:n_ops, s.OUTS] + n_outs
        dropped = np.full(len(self.storage), n_ops, np.int64)
        for op, v in self.drops:
            dropped[v] = op
        step_cost = np.zeros(trace.n_steps, np.int64)
        np.add.at(step_cost, trace.step, trace.cost_ns)
        return Program(
            values=values,
            ops=ops,
            ins=ins,
            outs=_flat(o + t for o, t in zip(self.outs, self.temps, strict=True)),
            uses=users[np.argsort(ins, kind="stable")],
            initial=np.array(self.initial, np.int64),
            events=self._events(non_evictable, counted),
            step_cost=step_cost,
            carry=np.array(self.carry, np.int64).reshape(-1, 2),
            edge_op=np.concatenate([users, np.repeat(each, np.add(n_outs, n_temps))]),
            storage=np.array(self.storage, np.int64),
            version=np.array(self.version, np.int64),
            spare=np.array(self.spare, np.int64),
            used_up=self._used_up(),
            dropped=dropped,
        )
