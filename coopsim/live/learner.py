"""Learns from the steps of a program: which kinds there are, by which plan each goes, and whether that keeps its word.

Steps that dispatch the same ops on the same sizes are of one kind (kinds.py), and go by one plan.
"""

from dataclasses import replace

from coopsim import budget as amounts
from coopsim.live import device, stored
from coopsim.live.kinds import Kind
from coopsim.live.known_kinds import KnownKinds
from coopsim.live.ledger import LiveLedger
from coopsim.live.on_demand import OnDemand
from coopsim.live.parts import IN_PARTS
from coopsim.live.plan_state import PlanState
from coopsim.live.planning import Planning
from coopsim.live.recording import Deciding, Recording
from coopsim.live.step import Step
from coopsim.live.tape import TapeRecorder, trace_of
from coopsim.observe import effects, roles
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.types import Role

_MENDED = 3  #: plans of a kind that were mended, after which steps that still call the driver count as not steady
_FIRST = "it makes the optimizer's state, as only the first step does"


class Learner:
    """What is known of a program's steps. share: of the largest step, which the budget is to be; "": it is no share.

    plans: make plans, and not only recordings. cached: the plan file is of an earlier start. keeps: `keep` will be
    called, which needs a plan of the first step, too.
    """

    def __init__(
        self,
        known: KnownKinds,
        planning: Planning,
        ledger: LiveLedger,
        share: str,
        *,
        plans: bool,
        cached: bool = False,
        keeps: bool = False,
    ) -> None:
        self._known, self._planning, self._ledger, self._share, self._plans = known, planning, ledger, share, plans
        self._cached, self._keeps = cached, keeps
        self._first: Kind | None = None  # the program's first step, if it was recorded
        self._kept: list[tuple[int, bool]] = []  # the plans that the file of `keep` has

    def take(self, planned: stored.Loaded, device_kind: str) -> None:
        """Enter the kinds of a plan file. Raises what Planning.follow_known and Loaded.kinds raise."""
        if device_kind == "cpu":  # where bytes are counted, and nothing is recorded first
            with effects.on(device_kind):
                roles.assign(roles.Objects.now(), self._ledger)
        self._planning.set_others(planned.others_bytes)
        self._known.add_planned(planned.kinds(device_kind))
        for kind in self._known.kinds:
            self._planning.follow_known(kind)
        self._kept = self._held()

    def learn(self, step: Step) -> bool:
        """Learn from a step that has ended without an error: plan its kind if that is new, and judge its plan.

        True if a plan was judged. Raises DoesNotFit if the budget is below what one of its ops needs.
        """
        match step.state:
            case Recording(recorder=recorder, kind=kind) | Deciding(recorder=recorder, kind=kind):
                self._plan(step, recorder, trace_of(recorder))
                return kind is not None and self._judge(kind, step, ran_out=True)  # its plan has found no room
            case OnDemand(kind=Kind() as kind, left=left) if left is not None and left.ran_out:
                self._known.saw(kind)
                return self._judge(kind, step, ran_out=True)
            case OnDemand(left=left) if left is not None:
                self._known.deviated(outgrown=left.outgrown)
                self._planning.expect_other_steps(self._known.kinds)
                return False
            case state:
                assert state.kind is not None
                self._known.followed(state.kind, state.storage)
                return state.planned and self._judge(state.kind, step, ran_out=False)

    def _plan(self, step: Step, recorder: TapeRecorder, trace: Trace) -> None:
        """Plan a step that was recorded, if it is of a new kind."""
        if self._known.recognise(recorder.tape, recorder.stays):
            return
        if step.meter is not None:
            self._planning.set_others(step.meter.others(self._ledger))
        if step.in_parts:
            trace = replace(trace, header=dict(trace.header) | {IN_PARTS: True})
        first = _first(trace)
        kind = Kind(
            trace,
            recorder.tape,
            recorder.decided or 1,
            peak_bytes(trace, device.GRANULE),
            first,
            PlanState(why=_FIRST if first and self._plans else ""),
            recorder.stays,
        )
        self._known.saw(kind)
        if not self._plans:
            self._known.add(kind)
        elif first:  # no other will be like it
            self._first = kind
        else:
            if self._share and self._cached and not any(one.state.kept for one in self._known.kinds):
                self._known.forget_all()  # the program is another than it was, and so is its largest step
            self._known.add(kind)
            self._known.forget_oldest()
            if self._share:
                self._find_limit()
            self._planning.learn(kind)
            if self._keeps and self._first is not None and self._planning.first is None:
                self._planning.prepare(self._first, now=False)

    def _find_limit(self) -> None:
        """Set a budget that is a share, of the largest kind of step; if it changes, plan the older kinds again."""
        *older, _ = kinds = [kind for kind in self._known.kinds if not kind.first]
        limit = amounts.parse(self._share, max(kind.peak_bytes for kind in kinds) + self._planning.others)
        if limit != self._planning.limit:
            self._planning.set_limit(limit)
            for kind in older:
                self._planning.plan(kind)

    def _judge(self, kind: Kind, step: Step, *, ran_out: bool) -> bool:
        """Judge the plan of a kind by a step that followed it; True."""
        allocated, reserved = step.peaks()
        taken = max(allocated, reserved if step.over_cap else 0)
        self._planning.prove(kind, taken, ran_out=ran_out, calls=step.device_calls, retries=step.retries)
        return True

    def save(self, path: str, command: str, device_kind: str, *, arena: bool) -> None:
        """Write all kinds of step that are known, and their plans, to a file (docs/formats.md).

        command: the title of the program. If writing fails, a file that was there before is left as it was.
        """
        planning = self._planning
        known = planning.limit, planning.policy, planning.others, device_kind, command
        stored.save(self._known.kinds, path, stored.header(*known, arena=arena, hosting=planning.hosting))

    def keep(self, path: str, command: str, device_kind: str, calls: int, *, arena: bool) -> None:
        """Write a file as `save` does, for another start of the program, and with its first step.

        Kinds whose plan is still being made are left out. No file is written without a plan, and none if it would be as
        the one that was read. calls: how often the last step took memory from the device or gave it back.
        """
        planning, found = self._planning, self._held()
        planning.take()
        kinds = [kind for kind in self._known.kinds if not planning.is_asked(kind)]
        if not any(kind.state.schedule for kind in kinds) or found == self._kept:
            return
        self._kept = found
        if self._first is not None:
            if self._first.state.schedule is None:
                planning.prepare(self._first, now=True)
            kinds.insert(0, self._first)
        known = planning.limit, planning.policy, planning.others, device_kind, command
        head = stored.header(*known, arena=arena, hosting=planning.hosting)
        steady = not (calls and any(kind.state.finished or kind.state.repairs >= _MENDED for kind in kinds))
        stored.save(kinds, path, replace(head, card=device.card(device_kind), steady=steady))

    def _held(self) -> list[tuple[int, bool]]:
        return [(id(kind.state.schedule), kind.state.finished) for kind in self._known.kinds if not kind.first]

    @property
    def may_be_kept(self) -> bool:
        """Whether plans are proven that were made in the background, and none is being made: they can be kept."""
        background = self._planning.background
        made = background is not None and any(kind.plan for kind in self._known.kinds) and not background.is_asked()
        return made and self.all_proven and self._held() != self._kept

    @property
    def all_proven(self) -> bool:
        """Whether each kind's plan was followed by enough steps that kept to the budget; True for kinds without one."""
        return all(kind.state.proven or kind.plan is None for kind in self._known.kinds)


def _first(trace: Trace) -> bool:
    """Whether a step makes most of the optimizer's state, as only a program's first step does."""
    states = [role == Role.OPTIMIZER_STATE for role in trace.role]
    there = int(trace.bytes[states & trace.alive_at_start].sum())
    return int(trace.bytes[states].sum()) > 2 * there
