"""Run the script with what remedies propose, in the card's memory less some headroom, to see whether it fits."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.copies import can_copy
from coopsim.fitting.editing.patch import certain, patched
from coopsim.fitting.figures import HEADROOM, depends_on_card, ratio, taken, works
from coopsim.fitting.remedy import COUNTS_BATCHES, Remedy
from coopsim.fitting.searching import unwatched
from coopsim.fitting.searching.launching import LIVE, PLUGIN, changed, run_changed, run_itself
from coopsim.fitting.searching.progress import Runs, rough_answer
from coopsim.fitting.survey import Survey, read
from coopsim.record.observe.masks import LOWER
from coopsim.run import Report, Script
from coopsim.run.launch.failures import HostRanOutError
from coopsim.run.launch.start import Running
from coopsim.run.memory import SURELY_ENOUGH
from coopsim.run.smallest import STEP, Server

_TOO_EARLY = "it ends well, but after"
_NO_COPY = "a copy of the script does not run"


@dataclass
class Trials:
    """Trials of one script on one card. `runs` reports every run to the user.

    `found`: every remedy that works, as soon as it is known, by its key. `failed`: changes with which the script fails
    for another reason than memory, and the reason. `notes`: lines to print with the verdict. `running`: the processes.
    `stopped`: whether no more runs are started. `first`: the report of the unchanged script.
    """

    script: Script
    runs: Runs
    found: dict[str, Remedy] = field(default_factory=dict)
    failed: dict[Changes, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    running: Running = field(default_factory=Running)
    stopped: bool = False
    first: Report | None = None
    requests: Path | None = None  #: the file of the requests of the unchanged script (run/probes/requests.py)
    reports: dict[Changes, Report] = field(default_factory=dict)  #: the last report of a run with changes
    on_found: Callable[[Remedy], None] = lambda _: None  #: called with each remedy that is found
    copies: list[bool] = field(default_factory=list)  #: whether a copy of the script runs; []: not tried yet
    parts: list["Trials"] = field(default_factory=list)  #: which stop with these
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def limit_bytes(self) -> int:
        """The bytes of the card that a remedy may use: its memory less the headroom."""
        return int(self.script.total_bytes * (1 - HEADROOM))

    def stop(self) -> None:
        """Kill the runs under way, and start no more; it may be called again."""
        self.stopped = True
        self.running.end_all()
        for part in list(self.parts):
            part.stop()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Within the context, stop after so many seconds."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def apart(self, seconds: float) -> Iterator["Trials"]:
        """Within the context, give trials that stop after so many seconds, or with these; what they find is shared."""
        part = replace(self, running=Running(), parts=[])
        self.parts.append(part)
        try:
            with part.limited(seconds):
                yield part
        finally:
            self.parts.remove(part)

    def survey(self, requests: Path) -> Survey:
        """Run the unchanged script with unlimited memory, and return the survey.

        Its requests are written to the file `requests`. Raises what coopsim.run.run raises.
        """
        self.requests = requests
        script = replace(self.script, memory_bytes=SURELY_ENOUGH, plugin=PLUGIN, told=Changes().message())
        script.words()  # raises if there is no such command, before the run is announced
        one = self.runs.one("as it is, with memory enough")
        with Server(script.card) as server, one as ended, rough_answer(self.runs.note) as variables:
            try:
                report = run_itself(replace(script, variables=script.variables + variables), requests, self.running)
            except HostRanOutError as e:
                report = e.report
            if report.watched_by_mode:
                report, said = unwatched.judged(script, report, requests, self.running)
                self.runs.note(said)
                self.script = replace(self.script, watched=report.watched_by_mode)
            self.first = report
            if not script.masks and report.masks == "none":  # it fails if masks keep anything
                self.script = replace(self.script, masks=LOWER)
            needs = self.needs(report, requests, server=server)
            more = "more than " if report.outcome == "oom" or report.host_ran_out else ""
            ended(f"needs {more}{human(needs)}, the card has {human(self.script.total_bytes)}")
        return read(report, needs, script.command)

    def needs(
        self, report: Report, requests: Path, changes: Changes | None = None, *, server: Server | None = None
    ) -> int:
        """Return the smallest memory, in bytes, that serves the requests of a run, replayed with the allocator alone.

        `changes`: changes to the environment for the replay. For a run that ran out of memory: what was allocated then,
        plus the request that failed. `server`: the process to ask; None: a new one.
        """
        if report.outcome == "oom" and (failed := report.out_of_memory) is not None:
            return max(report.peak_device_bytes, report.context_bytes + failed.allocated_bytes + failed.requested_bytes)
        if report.replay is not None:
            assert report.replay_needs_bytes is not None
            return report.replay_needs_bytes
        if not requests.exists():
            return report.peak_device_bytes
        part = report.memory_fraction or 1.0
        low = max(report.context_bytes + report.peak_allocated_bytes, int(report.peak_allocated_bytes / part))
        nccl = -(-report.nccl_bytes // STEP) * STEP  # beside PyTorch's allocator
        high = max(report.peak_device_bytes, int(report.peak_reserved_bytes / part))
        with server or Server(self.script.card, changes.variables if changes else ()) as asked:
            near = asked.guess(requests, low, high - nccl, report.context_bytes, part=part)
        return high if near is None else near + nccl

    def run(
        self,
        what: str,
        changes: Changes,
        *,
        command: tuple[str, ...] = (),
        memory_bytes: int | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> Report | None:
        """Run the script with changes, and return the report, whose outcome may be "oom".

        None if it fails with them for another reason than memory (`failed`), or if the trials were stopped. `what`
        describes the run to the user. `command`: the script's own if (). `memory_bytes`: the card's; `limit_bytes` if
        None. `texts`: a copy of the script runs, in which files have these texts; those changes that concern files have
        been made there.
        """
        if self.stopped:
            return None
        script = replace(
            self.script,
            command=command or self.script.command,
            memory_bytes=memory_bytes or self.limit_bytes,
            quiet=True,
        )
        script = changed(script, changes if texts is None else changes.outside_files)
        with self.runs.one(what) as ended:
            try:
                report = self.judged(self._executed(script, texts), changes, command, printed=texts is not None)
            except CoopsimError as e:
                if self.is_over():  # `stop` has killed the run
                    return None
                self.failed[changes] = str(e)
                ended(f"fails: {e}")
                return None
            self.reports[changes] = report
            said = f"fits, {human(report.peak_device_bytes)}" if report.outcome == "ok" else "out of memory"
            ended(said + ("" if report.outcome == "oom" or works(report, changes) else ", but hardly a step by plan"))
            return report

    def _executed(self, script: Script, texts: Mapping[str, str] | None) -> Report:
        """Run a script; if nothing is to watch it and it fits, once more, watched, for what the plugin says."""
        if script.plugin == LIVE:
            return self.execute(replace(script, watched=True), texts)
        report = self.execute(script, texts)
        if script.watched or report.outcome == "oom":
            return report
        seen = self.execute(replace(script, watched=True, memory_bytes=SURELY_ENOUGH), texts)
        return unwatched.merged(seen, report)

    def execute(self, script: Script, texts: Mapping[str, str] | None) -> Report:
        """Run a script, or a copy of it with these texts."""
        return run_changed(script, texts, self.running)

    def is_over(self) -> bool:
        """Whether no more runs are started, asked anew: another thread may have called `stop`."""
        return self.stopped

    def judged(
        self, report: Report, changes: Changes, command: tuple[str, ...] = (), *, printed: bool = False
    ) -> Report:
        """Return the report of a run, with the outcome "oom" if memory ran out, unlike in the first run.

        Such a run does not fit, even if the script caught the error. Raises CoopsimError if it took far fewer steps
        than the first, as a script does that catches another error. printed: its own lines ran, with which a script of
        smaller batches takes as many steps.
        """
        first = self.first
        if first is None or report.outcome == "oom":
            return report
        if report.ooms and not first.ooms and not changes.live:  # live evicts then, and reports whether that helped
            return replace(report, outcome="oom")
        alike = command in ((), self.script.command) and not changes.cards and not changes.live
        alike = alike and (printed or changes.accumulate == changes.divide == 1)  # it may end after so many batches
        if first.steps and report.steps < (first.steps / 2 if alike else 1):
            raise CoopsimError(f"{_TOO_EARLY} {report.steps} of {first.steps} optimizer steps")
        return report

    def verify(self, remedy: Remedy, survey: Survey) -> Remedy | None:
        """Run a remedy, and add it to `found` with its peak and time; None if it does not fit or the script fails.

        A copy of the script with the remedy's lines is run, or else the script with the changes that stand for them
        (Changes.stand_in), and the remedy's `stand_in` says why. `survey`: with which times are compared.
        """
        ran = remedy.changes.stand_in
        texts, why = self._texts(remedy, survey)
        if texts:
            report = self._fitting(remedy, ran, texts)
            smaller = remedy.changes.accumulate > 1 or remedy.changes.divide > 1
            if smaller and self.failed.pop(ran, "").startswith(_TOO_EARLY):
                why = COUNTS_BATCHES
            elif report is not None or ran not in self.failed or self._runs_as_a_copy(remedy.command):
                return None if report is None else self._done(remedy, report, survey, printed=True)
            else:
                why = _NO_COPY
        if why and remedy.changes.printed:  # nothing stands for its lines
            return None
        report = self._fitting(remedy, ran)
        return None if report is None else self._done(replace(remedy, stand_in=why), report, survey)

    def _texts(self, remedy: Remedy, survey: Survey) -> tuple[Mapping[str, str], str]:
        """Return the texts of the files with a remedy's lines; none and the reason if no copy can be run with them.

        None and "" for a remedy without lines.
        """
        try:
            texts = patched(remedy, survey)
        except CoopsimError as e:
            return {}, str(e).removeprefix("no patch: ")
        if texts and self.copies == [False]:
            return {}, _NO_COPY
        if texts and not can_copy(remedy.command, texts):
            return {}, "the command names no script that could be copied"
        return texts, ""

    def _runs_as_a_copy(self, command: tuple[str, ...]) -> bool:
        """Return whether an unchanged copy of the script runs; found out by the first call, and kept in `copies`."""
        if not self.copies and not self.stopped:
            what = "a copy of the script as it is, with memory enough"
            asked = Changes(hold_gradients=True)  # changes that no other run has, as a key of `failed`
            report = self.run(what, asked, command=command, memory_bytes=SURELY_ENOUGH, texts={})
            if not self.is_over():
                self.copies[:] = [report is not None]
        return self.copies != [False]

    def _fitting(self, remedy: Remedy, ran: Changes, texts: Mapping[str, str] | None = None) -> Report | None:
        """Run a remedy and return the report if it fits, else None.

        If the allocator had to free its cache, a run with all of the card's memory may go otherwise: it must fit, too.
        """
        report = self.run(remedy.text, ran, command=remedy.command, texts=texts)
        if report is None or not works(report, ran):
            return None
        if depends_on_card(report, ran):
            what, whole = f"{remedy.text}, with all of the card", self.script.total_bytes
            again = self.run(what, ran, command=remedy.command, memory_bytes=whole, texts=texts)
            if again is None or not works(again, ran):
                return None
        return report

    def _done(self, remedy: Remedy, report: Report, survey: Survey, *, printed: bool = False) -> Remedy:
        """Add a remedy that fits to `found`; return it with its figures.

        printed: its own lines ran, whose steps take the time of all micro-batches.
        """
        timed = replace(remedy.changes, accumulate=1) if printed else remedy.changes
        done = replace(
            remedy,
            peak_device_bytes=report.peak_device_bytes,
            time_ratio=ratio(report, survey, timed),
            host_bytes=taken(report, remedy.changes),
            verified=True,
        )
        with self._lock:
            self.found[done.key] = done
            self.on_found(done)
        return done

    def run_once(self, remedy: Remedy, survey: Survey) -> Report | None:
        """Run a remedy by its lines, or by what stands for them if their place is not certain."""
        texts = certain(remedy, survey)
        if not texts or not can_copy(remedy.command, texts):
            texts = None
        return self.run(remedy.text, remedy.changes.stand_in, command=remedy.command, texts=texts)
