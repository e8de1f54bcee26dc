"""Do what remedies ask for: the search runs what they propose, and tells them how that ended."""

from typing import Any

from coopsim.fitting.proposals import Keep, Note, Proposals, Replay, Run, RunsOut, Try, TryOutcome, Withdraw
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Survey


def drive(trials: Trials, survey: Survey, proposals: Proposals, *, first: bool = False) -> list[Remedy]:
    """Do what a remedy asks for, request by request, and return the remedies that it keeps.

    `first`: end with the first of them.
    """
    kept: list[Remedy] = []
    answer: Any = None
    while True:
        try:
            request = proposals.send(answer)
        except StopIteration:
            return kept
        answer = None
        match request:
            case Try(remedy, counts):
                trials.reports.pop(remedy.changes.stand_in, None)
                done = trials.verify(remedy, survey, counts=counts)
                ran = remedy.changes.stand_in
                answer = TryOutcome(done, trials.failed.get(ran, ""), trials.reports.get(ran))
            case RunsOut(remedy):
                report, _ = trials.run_once(remedy, survey, what=remedy.text)
                answer = report is not None and report.outcome == "oom"
            case Run(what, changes):
                answer = trials.run(what, changes)
            case Replay(changes):
                assert trials.requests is not None
                answer = trials.needs(survey.report, trials.requests, changes)
            case Keep(remedy):
                trials.found[remedy.key] = remedy
                kept.append(remedy)
                if first:
                    proposals.close()
                    return kept
            case Withdraw(remedy):
                trials.found.pop(remedy.key, None)
            case Note(text):
                trials.notes.append(text)
