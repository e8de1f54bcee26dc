"""The step signatures that a program has: how each begins, and which plan its steps go by. Knows no torch.

Steps have one signature if they dispatch the same ops on the same sizes. An op log is the list of these ops, its
entries. A plan is on trial until it is validated, or stays as the last that is left. A margin is a number of bytes that
a plan leaves of the budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from coopsim.base.types import GRANULE
from coopsim.live.plan import Entry, Plan
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule

_STABLE = 2  #: successive steps of one signature after which the next one is assumed to be of it from its start
_RECORDED = 4  #: steps that are recorded from their start after one that left its plan


@dataclass(frozen=True)
class Candidate:
    """A schedule that leaves `margin` bytes of the budget unused."""

    margin: int
    schedule: Schedule

    @property
    def cost(self) -> float:
        """Cost of a step by the schedule, as a multiple of a step without recomputation; 0.0 if it is not known."""
        return self.schedule.overhead or 0.0


@dataclass(frozen=True)
class Failure:
    """A plan by which a step took `excess` bytes more than the budget, or ran out of memory (`ran_out`).

    With an excess of 0 its steps kept to the budget, and were never steady: on average each gave back the allocator's
    cache `retries` times.
    """

    candidate: Candidate
    ran_out: bool = False
    excess: int = 0
    retries: float = 0.0


@dataclass(frozen=True)
class PlanState:
    """Which plan steps of a signature go by, and how they did by it.

    plan: made from `candidate`; None: steps go by none. why: why there is none, in one line; "" if none was sought.
    candidate: without a plan, a schedule of a plan file, or for another start. validated: enough steps have kept to the
    budget by the plan. stays: no other is left to try, whatever steps take; or steps ran out of memory by all.

    laid_out: memory was laid out anew for the plan. tried: plans that did not do well. kept: steps that kept to the
    budget and were steady, one after the other. allocating: steps since then that took memory from the device or gave
    it back, or exceeded the budget for good. retries: how often all of these gave back the allocator's cache. ran_out:
    steps by a plan that stays that ran out of memory, the first of all and those up to the latest, one after the other.
    """

    why: str = ""
    candidate: Candidate | None = None
    plan: Plan | None = None
    stays: bool = False
    validated: bool = False
    laid_out: bool = False
    tried: tuple[Failure, ...] = ()
    kept: int = 0
    allocating: int = 0
    retries: int = 0
    ran_out: int = 0

    @property
    def schedule(self) -> Schedule | None:
        """That of the candidate; None if there is none."""
        return self.candidate.schedule if self.candidate is not None else None

    @property
    def margin(self) -> int:
        """What it leaves of the budget, in bytes; 0 without one."""
        return self.candidate.margin if self.candidate is not None else 0

    def keep(self, enough: int) -> "PlanState":
        """A step kept to the budget and was steady; what steps took before `enough` such steps was to warm up."""
        kept = replace(self, kept=self.kept + 1, ran_out=min(self.ran_out, 1))
        return kept if kept.kept < enough else replace(kept, allocating=0, retries=0)

    def allocate(self, retries: int, *, ran_out: bool) -> "PlanState":
        """A step took memory from the device or gave it back, or exceeded the budget where no other plan is sought."""
        ran = self.ran_out + 1 if ran_out else min(self.ran_out, 1)
        return replace(self, kept=0, allocating=self.allocating + 1, retries=self.retries + retries, ran_out=ran)


@dataclass(eq=False)
class Signature:
    """A recorded step, which stands for all steps that dispatch the same ops on the same sizes.

    decided: number of the op log's entries after which the sizes of the batch are known, and thus the signature. first:
    whether it makes the optimizer's state, as only a program's first step does.
    """

    trace: Trace
    op_log: Sequence[Entry]
    decided: int
    first: bool = False
    state: PlanState = PlanState()

    @cached_property
    def peak_bytes(self) -> int:
        """Of the step without eviction."""
        return peak_bytes(self.trace, GRANULE)

    @property
    def plan(self) -> Plan | None:
        """The plan that steps of this signature follow; None if there is none."""
        return self.state.plan

    def has(self, entries: Sequence[Entry], at: int = 0) -> bool:
        """Whether the op log has these entries, one after the other, from number `at` on."""
        own = self.op_log[at : at + len(entries)]
        return len(own) == len(entries) and all(_alike(a, b) for a, b in zip(own, entries, strict=True))


def _alike(a: Entry, b: Entry) -> bool:
    """Whether two entries are the same op on the same sizes, and on the same parameters.

    Parameters are compared only where both entries name them; entries read from a file do not.
    """
    if a.func is not b.func or a.shapes[:2] != b.shapes[:2] or a.stream != b.stream:
        return False
    return a.shapes[2] == b.shapes[2] or a.shapes[2] is None or b.shapes[2] is None


class KnownSignatures:
    """Step signatures in the order in which they were learned, with the history that predicts the next step's."""

    def __init__(self) -> None:
        self.signatures: list[Signature] = []
        self.last: Signature | None = None  #: of the latest step that was recorded or followed
        self.recurred = False  #: whether there was a step of a signature that was known already
        self._in_a_row = 0  # steps of `last`, one after the other, that were followed to their end
        self._to_record = 0
        self._decides = False  # a step had larger data than its plan, or began otherwise

    @property
    def expected(self) -> Signature | None:
        """The signature that the next step is assumed to be of; None if its first ops have to tell."""
        sure = self.last is not None and self._in_a_row >= _STABLE and not self._decides
        return self.last if sure else None

    def candidates(self, *, first_step: bool) -> list[Signature]:
        """The signatures that the next step may turn out to be of, the likeliest first; [] if it has to be recorded.

        first_step: whether it is the program's first, which alone may make the optimizer's state.
        """
        if self._to_record:
            return []
        found = [signature for signature in self.signatures if not signature.first or first_step]
        return sorted(found, key=lambda signature: (not signature.first, signature is not self.last))

    def recognise(self, op_log: Sequence[Entry]) -> bool:
        """Note a recorded step, by its op log. False if it is new: `add` it."""
        known = next((k for k in self.signatures if len(k.op_log) == len(op_log) and k.has(op_log)), None)
        self._in_a_row = 0
        self._to_record = max(self._to_record - 1, 0) if known is not None else 0
        if known is None:
            return False
        self.last, self.recurred = known, True
        return True

    def add(self, signature: Signature) -> None:
        """Enter the signature of the latest step, which is not known yet."""
        self.last = signature
        self.signatures.append(signature)

    def followed(self, signature: Signature) -> None:
        """Note that a step was of this signature to its end, by plan or, where the signature has none, without."""
        self._in_a_row = self._in_a_row + 1 if signature is self.last else 0
        self.last, self.recurred = signature, True

    def deviated(self, *, decide: bool) -> None:
        """Note that a step left its plan: the next steps, up to four, are recorded.

        decide: from now on the first ops of each step have to tell its signature.
        """
        self._decides |= decide
        self._in_a_row, self._to_record = 0, _RECORDED

    def failed(self) -> None:
        """Note that a step ended with an error, so that the next one is not assumed to be of any signature."""
        self._in_a_row = 0
