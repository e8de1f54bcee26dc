"""Learns from the steps of a program: which signatures they have, and which plans keep to the budget.

Steps that dispatch the same ops on the same sizes have one signature (signatures.py), and go by one plan.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from coopsim.base import budget as amounts
from coopsim.base.types import Role
from coopsim.live import device, plan_file
from coopsim.live.device import LiveLedger
from coopsim.live.following import Recording
from coopsim.live.op_log import StepRecorder
from coopsim.live.plan_file import PlanFile
from coopsim.live.planning import Planning
from coopsim.live.signatures import KnownSignatures, PlanState, Signature
from coopsim.live.state import Spilling
from coopsim.live.step import IN_PARTS, Step
from coopsim.live.stored import StoredPlans
from coopsim.record.observe import effects, roles
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

_MOST = 32  #: signatures that are planned for, the latest ones
_FIRST = "it makes the optimizer's state, as only the first step does"


@dataclass
class Totals:
    """Sums and peaks over the steps so far. Peaks are in bytes, of steps that had a budget.

    steps: those that ended without an error. planned_steps: of these, those by a plan to their end. deviations: steps
    that left their plans, except for want of memory. deviated: why the latest step that left its plan did so.
    device_calls: how often the latest step with a plan took memory from the device or gave it back.
    """

    steps: int = 0
    planned_steps: int = 0
    evictions: int = 0
    recomputes: int = 0
    offloads: int = 0
    offloaded_bytes: int = 0
    deviations: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    deviated: str = ""
    device_calls: int = 0

    def add(self, step: Step, *, failed: bool) -> None:
        """Count a step that is over. failed: it ended with an error."""
        state, residency = step.state, step.residency
        self.evictions += residency.evictions
        self.recomputes += residency.recomputes
        self.offloads += residency.copies.offloads + residency.spills
        self.offloaded_bytes += residency.copies.offloaded_bytes + residency.spilled_bytes
        if failed:
            return
        self.steps += 1
        self.planned_steps += state.planned
        left = state.left if isinstance(state, Spilling) else None
        if left is not None:
            self.deviated = left.why
            self.deviations += not left.ran_out
        if state.planned or (left is not None and left.ran_out):
            self.device_calls = step.took.calls

    def add_peaks(self, allocated: int, reserved: int) -> None:
        """Take the peaks, in bytes, of a step that had a budget into account."""
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, allocated)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, reserved)


class Learner:
    """What is known of a program's steps. share: of the largest step, which the budget is to be; "": it is no share.

    plans: make plans, and not only recordings. stored: plans that there are when the program starts. If they are its
    own, those for another start are kept there, which needs one of the first step, too.
    """

    def __init__(
        self,
        known: KnownSignatures,
        planning: Planning,
        ledger: LiveLedger,
        share: str,
        *,
        plans: bool,
        stored: StoredPlans | None = None,
    ) -> None:
        self._known, self._planning, self._ledger, self._share, self._plans = known, planning, ledger, share, plans
        self._stored, self._own = stored, stored if stored is not None and stored.own else None
        self._device_type, self._kept = "", _plans_of([])

    def take(self, device_type: str) -> None:
        """Enter the signatures that are stored, if any, for steps on this type of device.

        Raises what StoredPlans.signatures raises.
        """
        self._device_type = device_type
        if self._stored is None:
            return
        if device_type == "cpu":  # where bytes are counted, and nothing is recorded first
            with effects.on(device_type):
                roles.assign(roles.Objects.now(), self._ledger)
        self._planning.count_others(self._stored.file.others_bytes)
        self._known.signatures += self._stored.signatures(device_type)
        for signature in self._known.signatures:
            self._planning.follow_known(signature)
        self._kept = _plans_of(self._known.signatures)

    def learn(self, step: Step) -> None:
        """Learn from a step that has ended without an error: plan its signature if that is new, or judge its plan.

        Raises DoesNotFit if the budget is below what one of its ops needs.
        """
        match step.state:
            case Recording(recorder=recorder):
                self._plan(step, recorder, recorder.trace())
            case Spilling(signature=Signature() as signature, left=left) if left is not None and left.ran_out:
                self._known.last = signature
                self._planning.validate(signature, step.took)
            case Spilling(left=left) if left is not None:
                self._known.deviated(decide=left.decide)
                self._planning.expect_other_steps(self._known.signatures)
            case state:
                assert state.signature is not None
                self._known.followed(state.signature)
                if state.planned:
                    self._planning.validate(state.signature, step.took)

    def _plan(self, step: Step, recorder: StepRecorder, trace: Trace) -> None:
        """Plan a step that was recorded, if it is of a new signature, and uses anything on the device."""
        if self._known.recognise(recorder.op_log) or not trace.n_storages:
            return
        if step.meter is not None:
            self._planning.count_others(step.meter.others(self._ledger))
        if step.in_parts:
            trace = replace(trace, header=dict(trace.header) | {IN_PARTS: True})
        first = _first(trace)
        why = _FIRST if first and self._plans else ""
        signature = Signature(trace, recorder.op_log, recorder.decided or 1, first, PlanState(why))
        known, planning = self._known, self._planning
        shown = any(one.state.kept or one.state.validated for one in known.signatures)
        if self._share and self._own is not None and not (first or shown):  # the program is another than it was
            known.signatures[:] = [one for one in known.signatures if one.first]
        known.add(signature)
        if not self._plans or first:  # no other will be like it
            return
        del known.signatures[:-_MOST]  # steps of the others will be recorded again
        if self._share:
            self._find_limit()
        planning.learn(signature)
        if self._own is not None and planning.asks:
            for one in self._unprepared():
                planning.learn(one)

    def _unprepared(self) -> list[Signature]:
        """The first steps of a program, for which no plan has been sought yet: it is for another start."""
        return [one for one in self._known.signatures if one.state == PlanState(_FIRST)]

    def _find_limit(self) -> None:
        """Set a budget that is a share of the largest step; if it changes, plan the older signatures again."""
        *older, _ = signatures = [signature for signature in self._known.signatures if not signature.first]
        limit = amounts.parse(
            self._share, max(signature.peak_bytes for signature in signatures) + self._planning.others
        )
        self._planning.rebudget(limit, older)

    def save(self, path: str, command: str) -> None:
        """Write all step signatures that are known, and their plans, to a file (docs/reference/files.md).

        command: the title of the program. If writing fails, a file that was there before is left as it was.
        """
        plan_file.save(self._file(self._known.signatures, command), path)

    def keep(self, command: str, *, over: bool) -> None:
        """Keep plans for another start of the program, that of the first step included, if they are new.

        Does nothing if the stored plans are not the program's own. over: the program is; those still being made are
        left out. Until then nothing is kept before all plans are validated, and only where they are made in the
        background: there a program may run for days, and be killed.
        """
        planning, known = self._planning, self._known.signatures
        if self._own is None:
            return
        if over:
            planning.take()
        elif planning.background is None or planning.background.asked or not self.all_validated:
            return
        asked = planning.background.asked if planning.background is not None else ()
        signatures = [signature for signature in known if signature.first or signature not in asked]
        plans = _plans_of(signatures)
        if plans == self._kept or not any(schedule for schedule, _ in plans):
            return
        for one in self._unprepared():
            planning.learn(one, now=True)
        self._kept = plans
        plan_file.save(self._file(signatures, command), self._own.path)

    def _file(self, signatures: list[Signature], command: str) -> PlanFile:
        planning = self._planning
        policy = planning.policy if isinstance(planning.policy, str) else planning.policy.name
        replanned = planning.replans or any(one.state.stays for one in signatures)
        return PlanFile(
            planning.limit or 0,
            policy,
            planning.others,
            torch.__version__,
            self._device_type,
            command,
            signatures,
            arena=planning.placed is not None,
            hosting=planning.offloading.hosting,
            card=device.card(self._device_type),
            steady=not (replanned and any(one.state.allocating for one in signatures)),
        )

    @property
    def all_validated(self) -> bool:
        """Whether all plans are validated: enough steps that followed them kept to the budget."""
        return all(signature.state.validated or signature.plan is None for signature in self._known.signatures)


def _plans_of(signatures: Iterable[Signature]) -> list[tuple[Schedule | None, bool]]:
    """What tells plans of signatures from others, but for those of first steps."""
    return [(one.state.schedule, one.state.stays) for one in signatures if not one.first]


def _first(trace: Trace) -> bool:
    """Whether a step makes most of the optimizer's state, as only a program's first step does."""
    states = [role == Role.OPTIMIZER_STATE for role in trace.role]
    there = int(trace.bytes[states & trace.alive_at_start].sum())
    return int(trace.bytes[states].sum()) > 2 * there
