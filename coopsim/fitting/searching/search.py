"""Search for remedies: run the script, decide whether it fits, and try the kinds of remedy."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.fitting import batch as batches
from coopsim.fitting import rows
from coopsim.fitting.batch import Batch
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import combine, evaluation
from coopsim.fitting.searching import masks, order
from coopsim.fitting.searching.launching import run_itself
from coopsim.fitting.searching.order import RemedyKind
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Survey
from coopsim.fitting.verdict import Fit
from coopsim.run import Report, Script, largest
from coopsim.run.largest import Largest
from coopsim.run.search import SearchedRuns

_KINDS = 3  #: if fewer kinds of remedy work, combinations are tried
_AWAKE_S = 0.2  #: interval at which the waiting thread checks for Ctrl-C
_WIDER = 3  #: how often the range of batches is widened to four times, starting from the wanted one
_NO_BATCH = "smaller batches were not tried: write {} in the command where the batch goes"
_TOLERANCE = 0.05  #: relative tolerance of the largest batch
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def at_once(
    call: Callable[[_Task], _Result], tasks: Sequence[_Task], jobs: int, stop: Callable[[], None]
) -> Iterator[_Result]:
    """Yield what `call` returns for each task, as they end, `jobs` at a time; raise what it raises.

    More than one job take threads. An interrupt, which only the main thread receives, or an error calls `stop` until
    all have ended: it must make them end.
    """
    if jobs == 1:
        yield from map(call, tasks)
        return
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(call, task) for task in tasks}
        try:
            left = running
            while left:  # polled, as a signal may wake another thread only
                done, left = wait(left, timeout=_AWAKE_S, return_when=FIRST_COMPLETED)
                for one in done:
                    yield one.result()
        except BaseException:
            for one in running:
                one.cancel()
            while wait(running, timeout=_AWAKE_S).not_done:
                stop()  # again, as a run may have begun meanwhile
            raise


class Search:
    """The search for one script on one card, with `jobs` runs at a time.

    `say` is called with a line on each run. `seconds` after the verdict no run is started, and those under way are
    killed. `first`: whether to end with the first remedy that works, in the order of kinds, instead of trying all.
    Raises CoopsimError for a command with bad placeholders of the batch size.
    """

    def __init__(
        self,
        script: Script,
        *,
        jobs: int = 1,
        seconds: float | None = None,
        say: Callable[[str], None] = lambda _: None,
        first: bool = False,
    ) -> None:
        self._template = script.command
        self._wanted = batches.wanted(script.command) if batches.has_place(script.command) else None
        if not batches.has_place(script.command):
            command = script.command
        elif self._wanted is None:
            command = batches.by_default(script.command)
        else:
            command = Batch(script.command, self._wanted).command(self._wanted)
        on_found = rows.Growing(say).add
        self._trials = Trials(replace(script, command=command, quiet=True), Runs(say), on_found=on_found)
        self._jobs = jobs
        self._first = first
        self._seconds = math.inf if seconds is None else seconds
        self._survey: Survey | None = None
        self._lower_needs: int | None = None
        self._fits = False

    def run(self) -> Fit:
        """Run the search and return its result.

        Raises CoopsimError if the script fails for another reason than memory, or if it does not fit and has no
        backward pass, so that there is nothing to try.
        """
        with self._started() as folder:
            self._survey = survey = self._trials.survey(folder / "requests.npy")
            self._note_basis(survey)
            batch = self._batch(survey)
            self._fits = self._judge_as_it_is(survey)
            if not self._first:
                self._lower_needs = masks.lower_needs(self._trials, folder / "lower.npy")
            with self._trials.limited(self._seconds):
                if self._fits or survey.report.outcome == "oom":  # which no card has: only a smaller batch helps
                    larger = self._larger(batch) if batch and not batch.given else None
                    return replace(self.so_far(), larger=larger)
                if not survey.trains:
                    title, needs = self._trials.script.title, human(survey.needs_bytes)
                    raise CoopsimError(
                        f"{title} does not fit: it needs {needs}. It has no backward pass, so nothing is tried"
                    )
                self._try_remedies(Bench(self._trials, survey, self._first), batch)
                return self.so_far()

    def look(self) -> Survey:
        """Run the unchanged script with unlimited memory, and nothing else. Raises what coopsim.run.run raises."""
        with self._started() as folder:
            return self._trials.survey(folder / "requests.npy")

    def so_far(self, *, interrupted: bool = False) -> Fit:
        """Return the result so far, at the end of the search or after an interrupt.

        Raises CoopsimError if the first run has not ended.
        """
        if self._survey is None:
            raise CoopsimError("interrupted before the first run has ended: nothing is known")
        notes = list(self._trials.notes)
        if interrupted:
            notes.append("interrupted: not everything was tried")
        elif self._trials.stopped:
            notes.append("time ran out (--time): not everything was tried")
        found = sorted(self._trials.found.values(), key=lambda remedy: remedy.order)
        return Fit(
            fits=self._fits,
            needs_bytes=self._survey.needs_bytes,
            masks=self._survey.report.masks,
            lower_needs_bytes=self._lower_needs,
            full_after_steps=self._survey.report.full_after(self._trials.script.total_bytes),
            memory_bytes=self._trials.script.total_bytes,
            remedies=tuple(with_patch(remedy, self._survey) for remedy in found),
            basis=self._survey.basis,
            precision=self._survey.precision,
            runs=self._trials.runs.count,
            card=self._trials.script.card,
            notes=tuple(notes),
            host=self._survey.report.host,
            at_least=bool(self._survey.report.host_ran_out),
            failed=self._survey.report.out_of_memory if self._survey.report.outcome == "oom" else None,
        )

    def stop(self) -> None:
        """Kill the runs under way, and start no more; it may be called from any thread, and again."""
        self._trials.stop()

    @contextmanager
    def _started(self) -> Iterator[Path]:
        """Within the context, runs can be made; give a folder for their files."""
        with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
            yield Path(folder)

    def _note_basis(self, survey: Survey) -> None:
        """Note what the verdict rests on."""
        if survey.report.replay is not None:
            ran, steps = survey.report.steps, survey.report.replay.steps
            self._trials.notes.append(f"every run: {ran} steps, whose replay goes on to step {steps}")
        on_card = replace(survey.report, memory_bytes=self._trials.script.total_bytes)
        self._trials.notes += on_card.cautions
        if survey.report.other_masks is not None:  # that it fails with the upper bound
            self._trials.notes.append(str(survey.report.other_masks))
        self._trials.notes += rows.notes(survey.report, self._trials.script.total_bytes)

    def _try_remedies(self, bench: Bench, batch: Batch | None) -> None:
        """Try the kinds of remedy, and combinations if few work."""
        if batch is None:
            self._trials.notes.append(_NO_BATCH)
        self._try_each(bench, batch)
        enough = 1 if self._first or evaluation.is_the_cause(bench) else _KINDS
        if len({remedy.kind for remedy in bench.found.values()}) < enough:
            combine.propose(bench, batch)

    def _judge_as_it_is(self, survey: Survey) -> bool:
        """Return whether the unchanged script fits, from the first run, or from one on the card where that decides.

        Of a script that adapts to what the card has, the survey is that of the second run from then on (`so_far`).
        """
        total, first = self._trials.script.total_bytes, survey.report
        if first.host_ran_out:
            if survey.needs_bytes <= total:
                raise CoopsimError(f"with memory enough on the card, {first.host_ran_out}")
            return False
        limited = first.memory_fraction is not None
        if not (first.ooms or limited) and first.peak_device_bytes <= total:
            return True
        adapts = first.ooms > 0 and (first.outcome == "ok" or limited)  # to what the card has, or to a part of it
        if survey.needs_bytes > total and not adapts:
            return False
        report = self._trials.run("as it is", Changes(), memory_bytes=total)
        if report is None or report.outcome == "oom":
            return False
        if adapts:
            self._survey = replace(survey, needs_bytes=report.peak_device_bytes, report=report)
        if report.ooms:
            times = "once" if report.ooms == 1 else f"{report.ooms} times"
            self._trials.notes.append(f"memory runs out {times}, and the script goes on")
        return True

    def _batch(self, survey: Survey) -> Batch | None:
        if not batches.has_place(self._template):
            given = survey.given
            if self._first and given.options is not None and not given.options.adds_up:
                given = replace(given, options=None)  # a smaller batch does not say which card this one needs
            return None if given.wanted is None else Batch((), given.wanted, given)
        wanted = self._wanted or (survey.model.batch if survey.model else None)
        if wanted is None:
            raise CoopsimError("{}: which batch do you want? Write it between the braces: {64}")
        return Batch(self._template, wanted)

    def _try_each(self, bench: Bench, batch: Batch | None) -> None:
        """Try each kind of remedy, `jobs` at once; what promises most for the time it takes comes first (order.py).

        Where an evaluation keeps its outputs and the steps fit, what helps there is tried first, and enough.
        """
        if evaluation.is_the_cause(bench):
            evaluation.propose(bench)
            if bench.found:
                return
        kinds = order.kinds(bench, batch, together=self._jobs > 1)
        if not self._first:
            kinds = order.by_gain(kinds, bench.over_bytes)
        for _ in at_once(lambda kind: self._try(bench, kind), kinds, self._jobs, self._trials.stop):
            pass

    def _try(self, bench: Bench, kind: RemedyKind) -> None:
        """Try a kind of remedy, unless one has been found and that is enough."""
        if self._first and bench.found:
            return
        with self._trials.apart(self._seconds * kind.of_time) as trials:
            kind.propose(replace(bench, trials=trials))
            if trials.stopped and not self._trials.stopped:
                self._trials.notes.append(f"{kind.name} was ended when it had taken its share of --time")

    def _larger(self, batch: Batch) -> Largest:
        """Search for the largest batch that fits, from the wanted one; the latter if the time limit passes before."""
        trials = self._trials
        script = replace(trials.script, quiet=True)

        def run_with(n: int) -> Report:
            with trials.runs.one(f"with {n}") as ended:
                command = batch.command(n)
                report = run_itself(replace(script, command=command), None, trials.running)
                report = trials.judged(report, Changes(), command)
                ended("trains" if report.outcome == "ok" else "out of memory")
            return report

        runs = SearchedRuns[int](run_with, over=trials.is_over)
        return largest.search(runs, batch.wanted, batch.wanted, tolerance=_TOLERANCE, times=_WIDER)
