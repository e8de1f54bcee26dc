"""A program's steps inside a budget: which of them are recorded, planned, and by which plan each goes.

Steps that dispatch the same ops on the same sizes are of one kind (kinds.py), and go by one plan.
"""

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from coopsim import budget as amounts
from coopsim.live import device, hollow, observer, refused, stored
from coopsim.live.arena.library import Arena
from coopsim.live.arena.placed import Placed
from coopsim.live.background import Background
from coopsim.live.errors import DoesNotFit, LiveError
from coopsim.live.host_area import HostArea
from coopsim.live.host_time import StepTime
from coopsim.live.hosting import Hosting
from coopsim.live.kinds import Kind
from coopsim.live.known_kinds import KnownKinds
from coopsim.live.ledger import LiveLedger
from coopsim.live.parts import IN_PARTS
from coopsim.live.planning import Planning
from coopsim.live.running_step import RunningStep
from coopsim.live.sent import Sent
from coopsim.live.tape import TapeRecorder, trace_of
from coopsim.live.totals import Totals
from coopsim.observe import effects, roles
from coopsim.observe.torch_private import dispatch_modes
from coopsim.policies import Policy
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.types import Role


class TrainingSession:
    """The steps of one program: `begin` and `end` enclose each of them, and plans are kept from step to step.

    memory: an amount such as "8GiB", or a share of the largest step without eviction such as "50%". policy: by which
    steps are planned. device_kind: "cuda" or "cpu"; None: where most bytes of parameters are when the first step
    begins. plan: a file of plans that steps follow from the first one on. With neither memory nor plan, each step is
    recorded and none is planned. arena: serves all of the device's memory, and is as large as the budget; None:
    PyTorch's own allocator does. offload: plans may copy values to the host; None: only if the file's do.
    no_offload: why none may, the file's included. cached: `plan` is of an earlier start of this program with these
    arguments, so what does not match is planned anew. background: first plans are made, and the observer is compiled,
    while steps go on without them; else steps wait.

    Raises LiveError for a PyTorch without what eviction needs, and for a plan that does not match the arguments.
    """

    def __init__(
        self,
        memory: str | None,
        policy: Policy | str,
        device_kind: str | None = None,
        plan: str | None = None,
        arena: Arena | None = None,
        offload: Hosting | None = None,
        no_offload: str = "",
        *,
        cached: bool = False,
        background: bool = False,
    ) -> None:
        self._memory = memory or "100%"
        self.share = memory is not None and memory.strip().endswith("%")
        nbytes = amounts.parse(self._memory, 1 << 40)
        limit = nbytes if memory is not None and not self.share else None
        hollow.check()
        self._planned = stored.Loaded(plan, cached=cached) if plan is not None else None
        if self._planned is not None:
            limit = self._planned.limit(limit, share=self.share)
            policy = self._planned.policy(policy)
            offload = offload or self._planned.hosting
        self._cached = cached
        self._device_kind = device_kind
        self._arena = arena
        #: Whether each step begins before anything else runs, so that values may stay on the host from one to the next.
        self.seamless = False
        self.keeps = False  #: whether plans are kept for other starts of the program, also for its first step
        self._kept: list[tuple[int, bool]] = []  # plans that the file has
        self._first: Kind | None = None  # the first step, if it was recorded
        self.tries = False  #: whether steps may exceed a budget in bytes, to find out by how much
        self.no_arena = ""  #: why there is none, although one was asked for
        self.planning = Planning(policy, limit, Placed(arena) if arena is not None else None)
        self.planning.let_offload(offload, no_offload)
        recorded = self._planned.hosting if self._planned is not None else offload
        self.planning.in_parts = recorded is not None and recorded.state
        self._records_all = memory is None and plan is None
        self.stepped: Callable[[], None] = lambda: None  #: called after each step that ended without an error
        if background:
            self.planning.background = Background()
        self._observer, self.no_observer = observer.find(wait=not background)
        self.ledger = LiveLedger(self._observer)
        self.known = KnownKinds()
        self.totals = Totals()
        self._sent = Sent()
        self._running: RunningStep | None = None
        self._exits = ExitStack()  # of the running step
        self._failure: LiveError | None = None
        _forget_in_forks(weakref.ref(self))

    # -- a step ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a step, which `end` has to end. LiveError if one is running, or the program cannot be followed."""
        if self._running is not None:
            raise LiveError("a step is inside another: end `with budget.step()` before the next begins")
        refused.start()
        if self._device_kind is None:
            self._device_kind = device.here()
        self.planning.on_gpu = self._device_kind == "cuda"
        self.planning.area = self.planning.area or HostArea(self._device_kind)
        if not self.seamless or self._arena is not None:
            self.planning.keep_steps_apart()
        self._take_planned()
        self._take_made()
        if self._arena is not None and self._arena.kind != self._device_kind:
            self._arena = self.planning.placed = None
            self.no_arena = "the script does not train on a GPU"
        watcher = self._observer
        if dispatch_modes():  # it would run ops unseen by these
            watcher, self.no_observer = None, "other dispatch modes see every op"
        running = RunningStep(
            self._device_kind,
            self.ledger,
            self.planning,
            self._arena,
            self.known,
            [] if self._records_all else self.known.candidates(first_step=not self.totals.steps),
            watcher,
            self._sent,
            hard=not self.share and not self.tries,
        )
        self._exits.enter_context(running)
        self._running = running
        try:
            running.record()
        except LiveError as error:
            self.end(error)
            raise

    def end(self, error: BaseException | None = None) -> None:
        """End the running step, which there must be, and plan its kind if that is new.

        error: what was raised in it; then nothing is learned from it. Raises DoesNotFit if one of its ops needs more
        than the budget.
        """
        self._end(error)
        if error is None:
            self.stepped()

    def _end(self, error: BaseException | None) -> None:
        running, self._running = self._running, None
        assert running is not None
        step = running.step
        step.values.goes_on = self.seamless and error is None
        peaks = running.peaks() if error is not None else None  # before all comes back, whatever that takes
        try:  # begin and end come from hooks of the program, so no `with` can span them
            self._exits.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        finally:
            self.totals.add(step)
            if step.planned or (not self.share and self.limit is not None):
                self.totals.add_peaks(*(peaks or running.peaks()))
        if error is not None:
            self._failure = error if isinstance(error, LiveError) else None
            self.known.failed()
            return
        self.totals.steps += 1
        if step.recorder is not None:
            self._learn(running, step.recorder, trace_of(step.recorder))
            if step.ran_out and step.kind is not None:
                self._prove(step.kind, running)
        elif step.ran_out:
            assert step.kind is not None
            self.totals.deviated = step.deviated
            self.known.last = step.kind
            self._prove(step.kind, running)
        elif step.deviated:
            self.known.deviated(outgrown=step.outgrown)
            self._deviated(step.deviated)
        else:
            assert step.kind is not None
            self.known.followed(step.kind, step.storage)
            if step.planned:
                self.totals.planned_steps += 1
                self._prove(step.kind, running)

    def abandon(self) -> None:
        """End what was begun as a step and turns out to be none: it is not counted, and nothing is learned from it."""
        self.end(LiveError("no step"))
        self._failure = None

    def bring_back(self) -> None:
        """Bring back what the latest step has left on the host, as far as there is room, as no step follows."""
        failure = self._failure
        if self.left_bytes:
            self.begin()
            self.abandon()
        self._failure = failure

    def forget(self) -> None:
        """Leave the running step, if any, as it is: this process is a fork of the one that trains."""
        running, self._running = self._running, None
        self._exits = ExitStack()  # what it would undo is the parent's
        if running is not None:
            running.step.forget()

    @property
    def inside(self) -> bool:
        """Whether a step is running."""
        return self._running is not None

    @property
    def failure(self) -> LiveError | None:
        """The LiveError that was raised in the running step or, without one, in the latest; None if none was."""
        return self._running.step.failure if self._running is not None else self._failure

    # -- kinds of step and their plans -------------------------------------------------------------------------------

    def _take_planned(self) -> None:
        """Enter the kinds of the plan file. It waits for the first step, when the ops that the program uses exist."""
        planned, self._planned = self._planned, None
        if planned is not None:
            kind = self._device_kind or ""
            if kind == "cpu":  # where bytes are counted, and nothing is recorded first
                with effects.on(kind):
                    roles.assign(roles.Objects.now(), self.ledger)
            self.planning.others = planned.others_bytes
            self.known.add_planned(planned.kinds(kind))
            for known in self.known.kinds:
                self.planning.follow_known(known)
            self._kept = self._plans(self.known.kinds)

    def _take_made(self) -> None:
        """Take what was made while steps went on: the observer, and plans."""
        if self.no_observer == observer.COMPILING:
            self._observer, self.no_observer = observer.find(wait=False)
            if self._observer is not None:
                self.ledger.join(self._observer)
        self.planning.take()

    def _deviated(self, why: str) -> None:
        """Count a step that left its plan; from the first one on, plans keep all that such a step may need."""
        self.totals.deviations += 1
        self.totals.deviated = why
        if not self.planning.varies:
            self.planning.varies = True
            for kind in self.known.kinds:
                self.planning.follow(kind)

    def _learn(self, running: RunningStep, recorder: TapeRecorder, trace: Trace) -> None:
        """Plan a step that was recorded, if it is of a new kind. DoesNotFit if the budget is below its largest op."""
        if self.known.recognise(recorder.tape, recorder.stays):
            return
        if running.meter is not None:
            self.planning.others = running.meter.others(self.ledger)
        if running.in_parts:
            trace = replace(trace, header=dict(trace.header) | {IN_PARTS: True})
        kind = Kind(trace, recorder.tape, recorder.decided or 1, peak_bytes(trace, device.GRANULE))
        kind.first, kind.stays = _first(trace), recorder.stays
        self.known.last = kind
        if self._records_all:
            self.known.add(kind)
            return
        if kind.first:
            kind.state.refuse("it makes the optimizer's state, as only the first step does")
            self._first = kind
            return  # no other will be like it
        if self._cached and self.share and not self.totals.planned_steps:
            self.known.kinds.clear()  # the program is another than it was, so its largest step may be, too
        self.known.add(kind)
        self.known.forget_oldest()
        if self.share:
            self._find_limit()
        try:
            self.planning.learn(kind)
        except DoesNotFit as error:
            self._failure = error
            raise
        if self.keeps and self._first is not None and self.planning.first is None:
            self.planning.prepare(self._first, now=False)

    def _find_limit(self) -> None:
        """Set a budget that is a share, of the largest kind of step; if it changes, plan the older kinds again."""
        *older, _ = kinds = [kind for kind in self.known.kinds if not kind.first]
        limit = amounts.parse(self._memory, max(kind.peak_bytes for kind in kinds) + self.planning.others)
        if limit != self.planning.limit:
            self.planning.limit = limit
            for kind in older:
                self.planning.plan(kind)

    def _prove(self, kind: Kind, running: RunningStep) -> None:
        step, (allocated, reserved) = running.step, running.peaks()
        taken = max(allocated, reserved if step.on_demand.over_cap else 0)
        meter = running.meter
        calls, retries = (meter.calls(), meter.retries()) if meter is not None else (0, 0)
        self.totals.device_calls = calls
        self.planning.prove(kind, taken, ran_out=step.ran_out, calls=calls, retries=retries)

    def save(self, path: str, command: str) -> None:
        """Write all kinds of step that are known, and their plans, to a file (docs/formats.md).

        command: the title of the program. If writing fails, a file that was there before is left as it was.
        """
        known = self.limit, self.policy, self.planning.others, self._device_kind or "", command
        head = stored.header(*known, arena=self._arena is not None, hosting=self.planning.hosting)
        stored.save(self.known.kinds, path, head)

    def keep(self, path: str, command: str) -> None:
        """Write a file as `save` does, for another start of the program, and with its first step.

        Kinds whose plan is still being made are left out. No file is written without a plan, and none if it would be as
        the one that was read.
        """
        planning = self.planning
        planning.take()
        kinds = [kind for kind in self.known.kinds if not planning.is_asked(kind)]
        if self.limit is None or not any(kind.state.schedule for kind in kinds) or self._plans(kinds) == self._kept:
            return
        self._kept = self._plans(kinds)
        if self._first is not None:
            if self._first.state.schedule is None:
                planning.prepare(self._first, now=True)
            kinds.insert(0, self._first)
        known = self.limit, self.policy, planning.others, self._device_kind or "", command
        steady = not (self.totals.device_calls and any(kind.state.finished for kind in kinds))
        head = stored.header(*known, arena=self._arena is not None, hosting=planning.hosting)
        stored.save(kinds, path, replace(head, card=device.card(self._device_kind or ""), steady=steady))

    @staticmethod
    def _plans(kinds: list[Kind]) -> list[tuple[int, bool]]:
        return [(id(kind.state.schedule), kind.state.finished) for kind in kinds if not kind.first]

    @property
    def all_proven(self) -> bool:
        """Whether each kind's plan was followed by enough steps that kept to the budget; True for kinds without one."""
        return all(kind.state.proven or kind.plan is None for kind in self.known.kinds)

    @property
    def may_be_kept(self) -> bool:
        """Whether plans are proven that were made in the background, and none is being made: they can be kept."""
        asked = self.planning.background is not None and self.planning.background.is_asked()
        found = self.planning.background is not None and any(kind.plan for kind in self.known.kinds)
        return found and not asked and self.all_proven and self._plans(self.known.kinds) != self._kept

    # -- figures -----------------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """The budget in bytes; None where there is none, and before the step is known that it is to be a share of."""
        return self.planning.limit

    @property
    def policy(self) -> Policy | str:
        """The policy by which steps are planned."""
        return self.planning.policy

    @property
    def replans(self) -> int:
        """The number of plans that were replaced because steps took more than the budget, or were not steady."""
        return self.planning.replans

    @property
    def host_bytes(self) -> int:
        """Bytes of the host's area for copies."""
        return self.planning.area.nbytes if self.planning.area is not None else 0

    @property
    def left_bytes(self) -> int:
        """Bytes that the latest step has left on the host for the next."""
        return self._sent.nbytes

    @property
    def unplanned(self) -> str:
        """Why the kind of the latest step has no plan, in one line; "" if it has one."""
        return self.known.last.state.why if self.known.last else "no step has run"

    def time(self) -> StepTime | None:
        """The predicted times of a step by the last kind's plan; None if it has no plan."""
        plan = self.known.last.plan if self.known.last else None
        return plan.time if plan else None


def _forget_in_forks(found: "weakref.ref[TrainingSession]") -> None:
    def forget() -> None:
        session = found()
        if session is not None:
            session.forget()

    os.register_at_fork(after_in_child=forget)


def _first(trace: Trace) -> bool:
    """Whether a step makes most of the optimizer's state, as only a program's first step does."""
    states = [role == Role.OPTIMIZER_STATE for role in trace.role]
    there = int(trace.bytes[states & trace.alive_at_start].sum())
    return int(trace.bytes[states].sum()) > 2 * there
