"""A plan made from a point of the program with copies: its decisions, for a replay to follow."""

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning import fitting
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY, IterationStart, PlanRequest, ResidencyPlan
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_VALUE
from coopsim.study.optimum.model_copies import ModelWithCopies


class ByProgram:
    """Stands for planning.make.make: the plan that a point of the program describes, if it has addresses."""

    def __init__(self, model: ModelWithCopies, point: list[float]) -> None:
        self.model, self.point = model, point

    def __call__(self, request: PlanRequest, start: IterationStart) -> ResidencyPlan | None:
        draft = Draft(request.program, request.target_bytes, start.copying, first_run=request.in_place_once)
        self.decide(draft)
        return fitting.with_addresses(draft, request, start.placed, lambda _: False)

    def is_one(self, column: int | None) -> bool:
        return column is not None and self.point[column] > 0.5

    def decide(self, draft: Draft) -> None:
        """Copies out begin as early as they may, copies back in the stage in which the program has them."""
        draft.keep_all()
        D, chosen = draft.D, draft.chosen
        model, p = self.model, self.model.problem
        for i, row in enumerate(chosen.idle.tolist()):
            v, last = row[I_VALUE], i - row[I_VALUE] == D.V[row[I_VALUE], s.USES_END]
            if D.V[v, s.PRODUCER] < 0 or not D.V[v, s.EVICTABLE]:
                continue
            stages = range(row[I_AFTER] + 1, (p.last_need[v] if last else row[I_BEFORE]) + 1)
            kept = [self.is_one(model.keep.get((t, v))) for t in stages]
            fetched = [t for t in stages if self.is_one(model.fetch.get((t, v)))]
            if last:
                D.decisions[i] = STAY if any(kept) else LEAVE
            elif fetched:
                chosen.away[i] = fetched[-1]
            elif not all(kept):
                D.decisions[i] = LEAVE_ONCE if kept[-1] else LEAVE
        draft.install_copies()
        draft.run()
