"""A program's steps inside a budget: which of them are recorded, planned, and by which plan each goes."""

import os
import weakref
from collections.abc import Callable

from coopsim import budget as amounts
from coopsim.live import device, hollow, observer, refused, stored
from coopsim.live.arena.cap import ArenaCap
from coopsim.live.arena.library import Arena
from coopsim.live.arena.placed import Placed
from coopsim.live.cap import Cap
from coopsim.live.errors import DoesNotFit, LiveError
from coopsim.live.kinds import Kind
from coopsim.live.ledger import LiveLedger
from coopsim.live.on_demand import OnDemand
from coopsim.live.planning import Planning
from coopsim.live.step import Step
from coopsim.live.tape import TapeRecorder, trace_of
from coopsim.live.values import Values
from coopsim.observe import effects, roles
from coopsim.observe.torch_private import dispatch_modes
from coopsim.policies import Policy
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.types import Role

_STABLE = 2  #: steps of one kind after which the next is taken for another of it from its start
_ATTEMPTS = 4  #: steps that are recorded from their starts after one that left its plan in the middle
_KINDS = 32  #: the latest ones that are kept


class Session:
    """What is kept from step to step. memory: an amount, or a share of the largest peak of a step without eviction.

    plan: a file of plans, to begin with. Neither: steps are recorded, each of them, and none is planned. arena: has all
    of the device's memory, which is the budget; None: PyTorch's own allocator has it.
    """

    def __init__(
        self,
        memory: str | None,
        policy: Policy | str,
        kind: str | None = None,
        plan: str | None = None,
        arena: Arena | None = None,
    ) -> None:
        self._memory = memory or "100%"
        self.share = memory is not None and memory.strip().endswith("%")
        nbytes = amounts.parse(self._memory, 1 << 40)
        limit = nbytes if memory is not None and not self.share else None
        hollow.check()
        self._planned = stored.Loaded(plan) if plan is not None else None
        if self._planned is not None:
            limit = self._planned.limit(limit, share=self.share)
            policy = self._planned.policy(policy)
        self._kind = kind
        self.arena = arena
        self.no_arena = ""  #: why there is none, although it was asked for
        self.planning = Planning(policy, limit, Placed(arena) if arena is not None else None)
        self._records_all = memory is None and plan is None
        self.recurred = False  #: there was a step of a kind that was known
        self.stepped: Callable[[], None] = lambda: None  #: called when a step is over
        self._observer, self.no_observer = observer.find()
        self.ledger = LiveLedger(self._observer)
        self.kinds: list[Kind] = []
        self.steps = self.planned_steps = self.evictions = self.recomputes = self.deviations = 0
        self.peak_bytes = 0  #: allocated in a step, of those that had a budget
        self.peak_reserved_bytes = 0
        self.why = ""  #: the last step that left its plan did so
        self._last: Kind | None = None
        self._stable = self._attempts = 0
        self._step: Step | None = None
        self._meter: device.Meter | None = None
        self._cap: Cap | ArenaCap | None = None
        self._failure: LiveError | None = None
        self._grows = False  # a step had larger data than the one before
        _forget_in_forks(weakref.ref(self))

    # -- a step ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A step begins."""
        if self._step is not None:
            raise LiveError("a step is inside another: end `with budget.step()` before the next begins")
        refused.start()
        if self._kind is None:
            self._kind = device.here()
        self.planning.on_gpu = self._kind == "cuda"
        self._take_planned()
        self._cap = self._new_cap()
        self._watch = effects.on(self._kind)
        self._watch.__enter__()
        self.ledger.peak_bytes = self.ledger.live_bytes
        values = Values(self._kind, self.ledger)
        values.placed = self.planning.placed
        if self._cap is not None:
            self._cap.set()
        self._meter = device.Meter() if self._kind == "cuda" else None  # of what is there once the cap is set
        on_demand = OnDemand(values, self.limit, self._meter, self._cap, hard=not self.share)
        follows = self._observer
        if dispatch_modes():  # it would run ops unseen by these
            follows, self.no_observer = None, "other dispatch modes see every op"
        if self._last is not None and self._stable >= _STABLE and not self._grows:
            self._step = Step(values, on_demand, None, self._last, [], self.kinds, follows)
            self._step.__enter__()
            return
        model = device.cost_model(self._kind)
        recorder = TapeRecorder(device.find(self._kind), model, self.ledger, self._kind, on_demand, self.arena)
        undecided = self._candidates()
        if values.placed is not None and undecided and undecided[0].plan is not None:
            recorder.state = values.placed.expect(undecided[0].plan)
        self._step = Step(values, on_demand, recorder, None, undecided, self.kinds, follows)
        self._step.__enter__()
        recorder.begin()
        if not undecided:
            try:
                recorder.commit()
            except LiveError as error:
                self.end(error)
                raise

    def _new_cap(self) -> Cap | ArenaCap | None:
        if self.arena is not None and self.arena.kind != self._kind:
            self.arena = self.planning.placed = None
            self.no_arena = "the script does not train on a GPU"
        if self.arena is not None and self.planning.placed is not None:
            self.arena.begin()
            self.planning.placed.begin()
            return ArenaCap(self.arena)
        return Cap(self.limit) if self._kind == "cuda" and self.limit is not None else None

    def _take_planned(self) -> None:
        """Once all that the program imports is there: the kinds of step that come with plans."""
        planned, self._planned = self._planned, None
        if planned is not None:
            if self._kind == "cpu":  # where bytes are counted, and nothing is recorded first
                with effects.on(self._kind):
                    roles.assign(roles.Objects.now(), self.ledger)
            self.planning.others = planned.others_bytes
            for kind in planned.kinds(self._kind or ""):
                self.kinds.append(kind)
                self.planning.follow(kind)

    def _candidates(self) -> list[Kind]:
        """What the step that begins may turn out to be, the likeliest first."""
        if self._attempts or self._records_all:
            return []
        kinds = [kind for kind in self.kinds if not kind.first or not self.steps]
        return sorted(kinds, key=lambda kind: (not kind.first, kind is not self._last))

    def end(self, error: BaseException | None = None) -> None:
        """It is over."""
        self._end(error)
        if error is None:
            self.stepped()

    def _end(self, error: BaseException | None) -> None:
        step, self._step = self._step, None
        assert step is not None
        recorder = step.recorder
        recording = recorder._recording if recorder else None
        if self._cap is not None and error is not None:
            self._cap.end()
        try:
            step.__exit__(type(error) if error else None, error, None)
        finally:
            if recorder:
                recorder.end(learn=error is None)
            self._watch.__exit__(None, None, None)
            if self._cap is not None:
                self._cap.end()
            if self.arena is not None:
                self.arena.end()
            self._note(step)
        if error is not None:
            self._failure = error if isinstance(error, LiveError) else None
            self._stable = 0
            return
        self.steps += 1
        if recorder is not None and recording is not None:
            self._attempts = max(self._attempts - 1, 0)
            self._learn(recorder, trace_of(recorder, recording, []))
        elif step.ran_out:
            assert step.kind is not None
            self.why = step.deviated
            self._last = step.kind
            self._prove(step.kind, step)
        elif step.deviated:
            self._grows |= step.outgrown
            self._deviated(step.deviated)
            self._stable, self._attempts = 0, _ATTEMPTS
        else:
            assert step.kind is not None
            self._stable = self._stable + 1 if step.kind is self._last else 0
            self._last = step.kind
            self.recurred = True
            if step.planned:
                self.planned_steps += 1
                self._prove(step.kind, step)

    def forget(self) -> None:
        """This process is a fork of the one that trains: the step under way is not followed here."""
        step, self._step = self._step, None
        if step is not None:
            step.forget()

    @property
    def inside(self) -> bool:
        """Is a step running?"""
        return self._step is not None

    @property
    def failure(self) -> LiveError | None:
        """What of ours went through the program, if anything did."""
        return self._step.failure if self._step is not None else self._failure

    def abandon(self) -> None:
        """What runs now turns out to be no step."""
        self.end(LiveError("no step"))
        self._failure = None

    def _deviated(self, why: str) -> None:
        self.deviations += 1
        self.why = why
        if not self.planning.varies:
            self.planning.varies = True
            for kind in self.kinds:
                self.planning.follow(kind)

    def _learn(self, recorder: TapeRecorder, trace: Trace) -> None:
        """A step was recorded: of a new kind, or of one that is known."""
        known = next((k for k in self.kinds if len(k.tape) == len(recorder.tape) and k.has(recorder.tape)), None)
        self._stable = 0
        if known is not None:
            self._last, self.recurred = known, True
            return
        self._attempts = 0
        if self._meter is not None:
            self.planning.others = self._meter.others(self.ledger)
        kind = Kind(trace, recorder.tape, recorder.decided or 1, peak_bytes(trace, device.GRANULE))
        kind.first = _first(trace)
        self._last = kind
        if self._records_all:
            self.kinds.append(kind)
            return
        if kind.first:
            kind.why = "it makes the optimizer's state, as only the first step does"
            return  # no other will be like it
        self.kinds.append(kind)
        del self.kinds[:-_KINDS]
        planning = self.planning
        if self.share:
            limit = amounts.parse(self._memory, max(k.peak_bytes for k in self.kinds) + planning.others)
            if limit != planning.limit:
                planning.limit = limit
                for other in self.kinds[:-1]:
                    planning.plan(other)
        try:
            planning.learn(kind)
        except DoesNotFit as error:
            self._failure = error
            raise

    def _prove(self, kind: Kind, step: Step) -> None:
        allocated, reserved = self._peaks()
        taken = max(allocated, reserved if step.on_demand.over_cap else 0)
        self.planning.prove(kind, taken, ran_out=step.ran_out)

    def save(self, path: str, command: str) -> None:
        """Write all kinds of step that are known, and their plans, to a file."""
        known = self.limit, self.policy, self.planning.others, self._kind or "", command
        stored.save(self.kinds, path, stored.header(*known, arena=self.arena is not None))

    @property
    def all_proven(self) -> bool:
        """Has a step gone by each plan that there is, and kept to the budget?"""
        return all(kind.proven or kind.plan is None for kind in self.kinds)

    # -- figures -----------------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """The budget, in bytes; None: there is none yet."""
        return self.planning.limit

    @property
    def policy(self) -> Policy | str:
        """By which steps are planned."""
        return self.planning.policy

    @property
    def replans(self) -> int:
        """Plans that were made anew because a step took more than the budget."""
        return self.planning.replans

    def _peaks(self) -> tuple[int, int]:
        """Bytes that were allocated at most in the step, and reserved; 0 where there is no allocator to ask."""
        return self._meter.most() if self._meter is not None else (self.ledger.peak_bytes, 0)

    def _note(self, step: Step) -> None:
        self.evictions += step.values.evictions
        self.recomputes += step.values.recomputes
        if step.planned or (not self.share and self.limit is not None):
            allocated, reserved = self._peaks()
            self.peak_bytes = max(self.peak_bytes, allocated)
            self.peak_reserved_bytes = max(self.peak_reserved_bytes, reserved)

    @property
    def unplanned(self) -> str:
        """Why the last kind of step has no plan; "" if it has one."""
        return self._last.why if self._last else "no step has run"

    def overhead(self) -> float | None:
        """What the plan of the last kind of step predicts; None if it has none."""
        plan = self._last.plan if self._last else None
        return plan.overhead if plan else None


def _forget_in_forks(found: "weakref.ref[Session]") -> None:
    def forget() -> None:
        session = found()
        if session is not None:
            session.forget()

    os.register_at_fork(after_in_child=forget)


def _first(trace: Trace) -> bool:
    """Does the step make most of the optimizer's state, as only the first one does?"""
    states = [role == Role.OPTIMIZER_STATE for role in trace.role]
    there = int(trace.bytes[states & trace.alive_at_start].sum())
    return int(trace.bytes[states].sum()) > 2 * there
