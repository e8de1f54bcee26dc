"""A program's steps inside a budget: which of them are recorded, planned, and by which plan each goes.

Steps that dispatch the same ops on the same sizes have one signature (signatures.py), and go by one plan.
"""

import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any, cast

from coopsim.base import budget as amounts
from coopsim.live import device, host, observer, refused
from coopsim.live.arena.library import Arena
from coopsim.live.arena.placed import Placed
from coopsim.live.background import Background
from coopsim.live.device import LiveLedger
from coopsim.live.errors import DoesNotFit, LiveError
from coopsim.live.host import Hosting, Offloading, StepTime
from coopsim.live.learner import Learner, Totals
from coopsim.live.planning import Planning
from coopsim.live.residency import check_storages
from coopsim.live.signatures import KnownSignatures
from coopsim.live.state import Spilling
from coopsim.live.step import Parts, Start, Step
from coopsim.live.stored import StoredPlans
from coopsim.live.streams import Streams
from coopsim.record.observe.torch_private import dispatch_modes
from coopsim.simulate.policies import Policy
from coopsim.trace.schedule import Schedule

_MANY, _ENOUGH = 32, 3  #: steps by a plan of which the latest times are kept; how many tell what steps take


class TrainingSession:
    """The steps of one program: `begin` and `end` enclose each of them, and plans are kept from step to step.

    memory: an amount such as "8GiB", or a share of the largest step without eviction such as "50%". policy: by which
    steps are planned. device_type: "cuda" or "cpu"; None: where most bytes of parameters are when the first step
    begins. plan: a file of plans that steps follow from the first one on. With neither memory nor plan, each step is
    recorded and none is planned. arena: serves all of the device's memory, and is as large as the budget; None:
    PyTorch's own allocator does, and `no_arena` says why, if one was asked for. offload: plans may copy values to the
    host; None: only if the file's do. no_offload: why none may, the file's included. host_memory: bytes of the host
    that all copies may take, those of steps without a plan included; None: no limit. tries: steps may exceed a budget
    in bytes, to find out by how much. stepped: called after each step that ended without an error. own: `plan` is
    this program's with these arguments, of an earlier start and for later ones (StoredPlans). background: first plans
    are made, and the observer is compiled, while steps go on without them; else steps wait.

    Raises LiveError for a PyTorch without what eviction needs, and for a plan that does not match the arguments.
    """

    def __init__(
        self,
        memory: str | None,
        policy: Policy | str,
        device_type: str | None = None,
        plan: str | None = None,
        arena: Arena | None = None,
        offload: Hosting | None = None,
        no_offload: str = "",
        *,
        no_arena: str = "",
        tries: bool = False,
        stepped: Callable[[], None] = lambda: None,
        own: bool = False,
        host_memory: int | None = None,
        background: bool = False,
    ) -> None:
        self._is_share = memory is not None and amounts.is_share(memory)
        nbytes = amounts.parse(memory or "100%", 1 << 40)
        limit = nbytes if memory is not None and not self._is_share else None
        check_storages()
        stored = StoredPlans(plan, own=own, arena=arena is not None) if plan is not None else None
        if stored is not None:
            limit = stored.limit(limit, share=self._is_share)
            policy = stored.policy(policy)
            offload = offload or stored.file.hosting
        self._asked_type, self._device_type = device_type, ""
        self._arena, self.no_arena = arena, no_arena
        self._tries, self._stepped = tries, stepped
        placed = Placed(arena) if arena is not None else None
        if offload is not None:
            host.check(policy)
        offloading = Offloading(offload, no_offload, host_memory)
        self.planning = Planning(policy, limit, placed, offloading, Background() if background else None)
        self._lists, self._streams = Parts(), cast("Streams | None", None)
        self._observer, self._why_none = observer.find(wait=not background)
        self._others_watch = False
        self.ledger = LiveLedger(self._observer)
        self.known = KnownSignatures()
        self.totals = Totals()
        self._plans = memory is not None or plan is not None
        share = memory if memory is not None and self._is_share else ""
        #: What is known of the program's steps; it writes their plans to files.
        self.learner = Learner(self.known, self.planning, self.ledger, share, plans=self._plans, stored=stored)
        self._began, self._timed = 0, cast("Schedule | None", None)  # when the latest step began, and what it went by
        self._took: dict[Schedule, deque[int]] = {}  # by the latest schedule, what steps took on a card in ns
        self._running: Step | None = None
        self._ended: Step | None = None  # the latest, where something of it found no room to come back
        self._failure: LiveError | None = None
        self._by_plan = True  # the latest step, if there was one
        _forget_in_forks(weakref.ref(self))

    # -- a step ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a step, which `end` has to end. LiveError if one is running, or the program cannot be followed."""
        if self._running is not None:
            raise LiveError("a step is inside another: end `with budget.step()` before the next begins")
        refused.start()
        if self._ended is not None:
            self._ended.bring_back()
        self._prepare()
        self._others_watch = bool(dispatch_modes())  # the observer would run ops unseen by these
        watcher = self._observer if not self._others_watch else None
        candidates = self.known.candidates(first_step=not self.totals.steps) if self._plans else []
        hard = not self._is_share and not self._tries
        expected = self.known.expected
        planned = [one for one in (candidates if expected is None else [expected]) if one.plan is not None]
        trims, lays_out = bool(planned) and not self._by_plan, self.planning.lays_out(planned)
        start = Start(expected, candidates, self.known.signatures, hard=hard, trims=trims, lays_out=lays_out)
        self._running = step = Step(
            self._device_type, self.ledger, self.planning, self._arena, start, watcher, self._lists, self._streams
        )
        try:
            step.begin()
            self._time_latest(time.perf_counter_ns())
        except BaseException as error:
            self.end(error)
            raise

    def end(self, error: BaseException | None = None) -> None:
        """End the running step, which there must be, and plan its signature if that is new.

        error: what was raised in it; then nothing is learned from it. Raises DoesNotFit if one of its ops needs more
        than the budget.
        """
        step = self._running
        assert step is not None
        peaks = step.peaks() if error is not None and step.entered else None  # before all comes back, whatever it takes
        failed = True
        try:
            try:
                step.end(error)
            finally:
                step.end(error)  # does nothing, unless it was interrupted before it began
            failed = error is not None
        finally:
            self._running, self._ended = None, step if step.entered and step.residency.left else None
            if step.entered:
                self._count(step, peaks, failed=failed)
        if error is not None:
            self._failure = error if isinstance(error, LiveError) else None
            self.known.failed()
        else:
            self._learn(step)

    def _count(self, step: Step, peaks: tuple[int, int] | None, *, failed: bool) -> None:
        self.totals.add(step, failed=failed)
        self.planning.scattered |= not step.state.planned and step.residency.spills > 0
        state = step.state
        known = state.planned or (isinstance(state, Spilling) and state.left is None)  # the share is of such steps, too
        if self.limit is not None and (known or not self._is_share):
            self.totals.add_peaks(*(peaks or step.peaks()))

    def _learn(self, step: Step) -> None:
        self._failure, self._by_plan = None, step.state.planned
        self._timed = self._schedule_of(step)
        try:
            self.learner.learn(step)
        except DoesNotFit as failure:
            self._failure = failure
            raise
        self._stepped()

    def abandon(self) -> None:
        """End what was begun as a step and turns out to be none: it is not counted, and nothing is learned from it."""
        self.end(LiveError("no step"))
        self._failure = None

    def forget(self) -> None:
        """Leave the running step, if any, as it is: this process is a fork of the one that trains."""
        step, self._running = self._running, None
        if step is not None:
            step.forget()

    @property
    def inside(self) -> bool:
        """Whether a step is running."""
        return self._running is not None

    @property
    def failure(self) -> LiveError | None:
        """The LiveError that was raised in the running step or, without one, in the latest that failed."""
        return self._running.failure if self._running is not None else self._failure

    def _prepare(self) -> None:
        """Find the device of the first step, and take plans and the observer that were made since the last one."""
        if not self._device_type:
            self._device_type = self._asked_type or device.here()
            if self._arena is not None and self._arena.device_type != self._device_type:
                self._arena, self.no_arena = None, "the script does not train on a GPU"
            self.planning.run_on(self._device_type, in_arena=self._arena is not None)
            self._streams = Streams() if self._device_type == "cuda" else None
            self.learner.take(self._device_type)  # only now, as the ops that the program uses exist
        if self._why_none == observer.COMPILING:
            self._observer, self._why_none = observer.find(wait=False)
            if self._observer is not None:
                self.ledger.join(self._observer)
        self.planning.take()

    def _schedule_of(self, step: Step) -> Schedule | None:
        """The schedule that a step on a card went by to its end; None if its time tells nothing of such steps."""
        state = step.state
        if not state.planned or state.signature is None or state.signature.first:
            return None
        return state.signature.state.schedule if device.is_timed(self._device_type) else None

    def _time_latest(self, now: int) -> None:
        """Time the latest step, as another begins: the GPU waits for the program's work between steps, too."""
        if self._timed is not None:
            times = self._took.get(self._timed, deque(maxlen=_MANY))
            times.append(now - self._began)
            self._took = {self._timed: times}
        self._began, self._timed = now, None

    # -- plans and figures ---------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int | None:
        """The budget in bytes; None where there is none, and before the step is known that it is to be a share of."""
        return self.planning.limit

    @property
    def policy(self) -> str:
        """The name of the policy by which steps are planned."""
        return self.planning.policy if isinstance(self.planning.policy, str) else self.planning.policy.name

    def time(self) -> StepTime | None:
        """The predicted times of a step by the last signature's plan; None if it has none."""
        last = self.known.last
        return last.plan.time if last is not None and last.plan is not None else None

    def report(self) -> dict[str, Any]:
        """The figures of all steps so far, under the keys that `Budget.report` describes."""
        time, last, offloading = self.time(), self.known.last, self.planning.offloading
        took = self._took.get(last.state.schedule, ()) if last and last.state.schedule else ()
        return {
            "budget_bytes": self.limit,
            **asdict(self.totals),
            "replans": self.planning.replans,
            "predicted_overhead": time.overhead if time else None,
            "predicted_ns": time.row() if time else None,
            "step_ns": round(median(took)) if len(took) >= _ENOUGH else None,
            "prices": str(last.trace.header.get("cost_source", "")) if last else "",
            "policy": self.policy,
            "unplanned": last.state.why if last else "no step has used the device",
            "no_observer": "other dispatch modes see every op" if self._others_watch else self._why_none,
            "no_arena": self.no_arena,
            "host_bytes": offloading.area.nbytes,
            "no_offload": offloading.why_not(time, last.plan.host_bytes if last and last.plan else 0),
        }


def _forget_in_forks(found: "weakref.ref[TrainingSession]") -> None:
    def forget() -> None:
        session = found()
        if session is not None:
            session.forget()

    os.register_at_fork(after_in_child=forget)
