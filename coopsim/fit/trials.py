"""Runs of the script with changes, under the card's memory less a margin."""

import json
import shlex
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from coopsim.fit.changes import Changes
from coopsim.fit.executors import Local
from coopsim.fit.patch import patched
from coopsim.fit.printed import copied
from coopsim.fit.remedy import Remedy
from coopsim.fit.runs import Runs
from coopsim.fit.survey import Survey, read
from coopsim.script import Report, Script, run
from coopsim.script.smallest import STEP, guess
from coopsim.text import human
from coopsim.types import CoopsimError

#: Of the card's memory: a remedy leaves so much, because a real card's libraries take what the phantom's do not.
MARGIN = 0.02
#: A card on which memory does not run out, whose addresses the phantom can still reserve (expandable segments).
ENDLESS = 1 << 40
GUEST = "coopsim.fit.inside"
LIVE = "coopsim.live.guest"
_TOO_EARLY = "it ends well, but after"


@dataclass
class Trials:
    """`runs` says every run. `found` gets every remedy that works as soon as it is known, the best by its key.

    `failed` are changes with which the script fails for another reason than memory, and the reason. `notes` are said
    with the verdict. `stopped`: no run is begun. `execute` runs a script, here or on a cluster. `first` is the run of
    the script as it is.
    """

    script: Script
    runs: Runs
    found: dict[str, Remedy] = field(default_factory=dict)
    failed: dict[Changes, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    execute: Local = field(default_factory=Local)
    stopped: bool = False
    first: Report | None = None
    within: dict[Changes, Report] = field(default_factory=dict)  #: runs inside a budget
    copies: bool | None = None  #: does a copy of the script run? None: nobody has asked
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def limit_bytes(self) -> int:
        """What a remedy may take of the card."""
        return int(self.script.total_bytes * (1 - MARGIN))

    def _is_over(self) -> bool:
        return self.stopped

    def stop(self) -> None:
        """What runs is ended, and nothing begun."""
        self.stopped = True
        self.execute.end()

    def survey(self, requests: Path) -> Survey:
        """Run the script as it is on a card without end."""
        script = replace(self.script, memory_bytes=ENDLESS, guest=GUEST, told=Changes().message())
        script.words()  # there is such a command, or nothing begins
        with self.runs.one("as it is, with memory enough") as ended:
            self.first = report = heard(script, requests)
            needs = self.needs(report, requests)
            more = "more than " if report.outcome == "oom" else ""
            ended(f"needs {more}{human(needs)}, the card has {human(self.script.total_bytes)}")
        return read(report, needs)

    def needs(self, report: Report, requests: Path, changes: Changes | None = None) -> int:
        """The smallest memory that serves the requests of a run, by the allocator alone.

        Of one that ran out of memory: what it held then, with what it asked for.
        """
        if report.outcome == "oom" and (failed := report.out_of_memory) is not None:
            return max(report.peak_device_bytes, report.context_bytes + failed.allocated_bytes + failed.requested_bytes)
        if not requests.exists():
            return report.peak_device_bytes
        part = report.memory_fraction or 1.0
        low = max(report.context_bytes + report.peak_allocated_bytes, int(report.peak_allocated_bytes / part))
        nccl = -(-report.nccl_bytes // STEP) * STEP  # beside PyTorch's allocator
        variables = changes.variables if changes else ()
        high = max(report.peak_device_bytes, int(report.peak_reserved_bytes / part))
        near = guess(self.script.card, requests, low, high - nccl, variables, part=part)
        return high if near is None else near + nccl

    def run(
        self,
        what: str,
        changes: Changes,
        *,
        command: tuple[str, ...] = (),
        memory_bytes: int | None = None,
        copy: tuple[str, ...] = (),
    ) -> Report | None:
        """The script with changes; None if it fails with them for another reason than memory.

        copy: the command that runs in its place, with what of the changes is in files made there.
        """
        if self.stopped:
            return None
        script = replace(
            self.script,
            command=copy or command or self.script.command,
            memory_bytes=memory_bytes or self.limit_bytes,
            quiet=True,
        )
        script = changed(script, changes.outside_files if copy else changes)
        with self.runs.one(what) as ended:
            try:
                report = self.judged(self.execute(script), changes, command)
            except CoopsimError as e:
                if self._is_over():  # that ended it
                    return None
                self.failed[changes] = str(e)
                ended(f"fails: {e}")
                return None
            if changes.live:
                self.within[changes] = report
            taken = f"fits, {human(report.peak_device_bytes)}" if report.outcome == "ok" else "out of memory"
            ended(taken + ("" if report.outcome == "oom" or works(report, changes) else ", but hardly a step by plan"))
            return report

    def judged(self, report: Report, changes: Changes, command: tuple[str, ...] = ()) -> Report:
        """A run in which memory ran out, unlike the first, is none that fits, though the script caught that.

        Raises CoopsimError if it took far fewer steps than the first, as where a script catches another error.
        """
        first = self.first
        if first is None or report.outcome == "oom":
            return report
        if report.ooms and not first.ooms and not changes.live:  # live evicts then, and says whether that helped
            return replace(report, outcome="oom")
        alike = command in ((), self.script.command) and not changes.cards and not changes.live
        alike = alike and changes.accumulate == changes.divide == 1  # a script may end after so many batches
        if first.steps and report.steps < (first.steps / 2 if alike else 1):
            raise CoopsimError(f"{_TOO_EARLY} {report.steps} of {first.steps} optimizer steps")
        return report

    def verify(self, remedy: Remedy, ran: Changes, survey: Survey, *, counts: bool = True) -> Remedy | None:
        """Run the remedy; with what that said, None if it does not fit.

        A copy of the script with its lines is run; where that cannot be, the script with the changes that stand for it.
        counts: it is found then.
        """
        try:
            texts, why = patched(remedy, survey), ""
        except CoopsimError as e:
            texts, why = {}, str(e).removeprefix("no patch: ")
        if texts and (self.copies is False or type(self.execute) is not Local):
            texts, why = {}, "a copy of the script does not run"
        if texts:
            with copied(remedy.command, texts) as copy:
                report = self._fitting(remedy, ran, copy) if copy else None
                if copy is None:
                    why = "the command names no script that could be copied"
                elif remedy.changes.accumulate > 1 and self.failed.pop(ran, "").startswith(_TOO_EARLY):
                    why = "the script ends before it has added up so many batches"
                elif report is not None or ran not in self.failed or self.runs_as_a_copy(remedy.command):
                    return None if report is None else self._done(remedy, report, survey, printed=True, counts=counts)
                else:
                    why = "a copy of the script does not run"
        if why and remedy.changes.printed:  # nothing stands for its lines
            return None
        report = self._fitting(remedy, ran)
        return None if report is None else self._done(replace(remedy, stand_in=why), report, survey, counts=counts)

    def runs_as_a_copy(self, command: tuple[str, ...]) -> bool:
        """Does a copy of the script run as it is? Asked where one with other lines does not."""
        if self.copies is None and not self.stopped:
            with copied(command, {}) as copy:
                what = "a copy of the script as it is, with memory enough"
                asked = Changes(hold_gradients=True)  # of no other run
                self.copies = self.run(what, asked, command=command, memory_bytes=ENDLESS, copy=copy or ()) is not None
        return self.copies is not False

    def _fitting(self, remedy: Remedy, ran: Changes, copy: tuple[str, ...] = ()) -> Report | None:
        """A run that fits.

        Where the allocator had to give memory back, a run with all of the card's memory may go another way: it is made.
        """
        report = self.run(remedy.text, ran, command=remedy.command, copy=copy)
        if report is None or not works(report, ran):
            return None
        if report.retries:
            what, whole = f"{remedy.text}, with all of the card", self.script.total_bytes
            again = self.run(what, ran, command=remedy.command, memory_bytes=whole, copy=copy)
            if again is None or not works(again, ran):
                return None
        return report

    def _done(
        self, remedy: Remedy, report: Report, survey: Survey, *, printed: bool = False, counts: bool = True
    ) -> Remedy:
        """One that fits. printed: its lines ran, which add up gradients themselves."""
        timed = replace(remedy.changes, accumulate=1) if printed else remedy.changes
        done = replace(
            remedy,
            peak_device_bytes=report.peak_device_bytes,
            time_ratio=ratio(report, survey, timed),
            verified=True,
        )
        if counts:
            with self._lock:
                self.found[done.key] = done
        return done

    def nearest(self, remedy: Remedy, ran: Changes, survey: Survey) -> Remedy:
        """A remedy that does not fit, with what it takes where there is memory enough."""
        report = self.run(f"{remedy.text}, with memory enough", ran, command=remedy.command, memory_bytes=ENDLESS)
        if report is None:
            return remedy
        share = ratio(report, survey, remedy.changes)
        return replace(remedy, peak_device_bytes=report.peak_device_bytes, time_ratio=share)


def heard(script: Script, requests: Path | None = None) -> Report:
    """Run a script. If it ends without a reason that we know, the error names the command that shows what it says."""
    try:
        return run(script, requests=requests)
    except CoopsimError as e:
        if "ended with exit code" in str(e):
            raise CoopsimError(f"{e}; coopsim phantom run -- {shlex.join(script.command)} shows why") from None
        raise


def changed(script: Script, changes: Changes) -> Script:
    """The script as it runs with changes."""
    guest, told = GUEST, changes.message()
    if changes.live:
        guest, told = LIVE, json.dumps({"memory": changes.live})
    return replace(
        script,
        variables=changes.variables,
        world_size=changes.cards or script.world_size,
        guest=guest,
        told=told,
    )


def works(report: Report, ran: Changes) -> bool:
    """Did it train? Inside a budget most steps from the third on went by plan, too: else nobody predicts their time."""
    if report.outcome != "ok" or not ran.live:
        return report.outcome == "ok"
    said = report.guest
    return not said["failed"] and said["planned_steps"] > max((said["steps"] - 2) // 2, 0)


def ratio(report: Report, survey: Survey, changes: Changes) -> float:
    """Time of an optimizer step to that of the script as it is; what is accumulated is passes of one.

    What settings of FSDP cost is waiting for collectives, which only the phantom's clock knows.
    """
    if changes.live:
        return float(report.guest["predicted_overhead"])
    if changes.of_fsdp and changes.accumulate == 1:
        return float(report.guest["clock_step_ns"]) / survey.clock_step_ns if survey.clock_step_ns else 1.0
    accumulate = changes.accumulate
    step, optimizer = float(report.guest["step_ns"]), float(report.guest["optimizer_ns"])
    return (accumulate * (step - optimizer) + optimizer) / survey.step_ns if survey.step_ns else 1.0
