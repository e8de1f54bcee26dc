"""What is to be done, most valuable first, and what each needs. A task is done when all its files are there."""

import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.gpu import live_cases, names

GPU, HOST = "gpu", "host"
#: The parts, most valuable first; each takes at most nine minutes, or goes on in a second run.
PARTS = {
    "requests": "traces of three models; schedules' requests, and the least memory, on the card's allocator",
    "live": "training inside a budget, beside plain runs and remedies of fit",
    "peaks": "peaks of the corpus' scripts, and of those of fit",
    "calibrate": "what `coopsim calibrate` measures of the card",
    "execute": "schedules of three models executed at half the peak, and their bits with deterministic algorithms",
    "traces": "traces of the other five models, and all of the phantom's",
    "ratios": "all models' schedules executed at 70 and 30 % of the peak",
    "compiled": "peaks of compiled programs",
}


@dataclass(frozen=True)
class Task:
    """A program of this folder with its arguments.

    part: one of PARTS. lane: tasks of a lane run one after the other, the two lanes side by side. makes, needs: names
    of files. limit_s: it is ended after so long. For a task that makes no file, being done is to have run.
    """

    part: str
    name: str
    lane: str
    script: str
    arguments: tuple[str, ...]
    makes: tuple[str, ...]
    needs: tuple[str, ...] = ()
    limit_s: int = 180

    def done(self, folder: Path) -> bool:
        """Are its files there?"""
        return bool(self.makes) and all((folder / name).exists() for name in self.makes)

    def ready(self, folder: Path) -> bool:
        """Are the files there that it needs?"""
        return all((folder / name).exists() for name in self.needs)


def chosen(tasks: list[Task], parts: Collection[str]) -> list[Task]:
    """The tasks of these parts and those that make what they need, in order; all of them for none."""
    wanted = {task.name for task in tasks if not parts or task.part in parts}
    while True:
        needed = {file for task in tasks if task.name in wanted for file in task.needs}
        more = {task.name for task in tasks if set(task.makes) & needed} - wanted
        if not more:
            return [task for task in tasks if task.name in wanted]
        wanted |= more


def plan(folder: Path, main: tuple[str, ...], others: tuple[str, ...], batch: int | None) -> list[Task]:
    """All tasks for these models, the most valuable first."""
    of = _Tasks(str(folder), () if batch is None else (str(batch),))
    return [
        Task("requests", "machine", GPU, "stage_machine", (str(folder),), (names.MACHINE,), limit_s=60),
        Task("requests", "compile the core", HOST, "stage_warm", (), (), limit_s=400),
        *(of.trace(model, "requests") for model in main),
        *(of.schedules(model) for model in main),
        *map(of.requests, main),
        *map(of.smallest, main),
        *of.live(phantom=False),
        *of.peaks("scripts", "peaks"),
        *of.calibration(),
        *map(of.execution, main),
        *map(of.bits, main),
        *(of.trace(model, "traces") for model in others),
        *of.live(phantom=True),
        *(of.phantom(model) for model in (*main, *others)),
        *(task for model in (*main, *others) for task in of.ratios(model, main)),
        *of.peaks("compiled", "compiled"),
    ]


@dataclass(frozen=True)
class _Tasks:
    """The kinds of tasks, for a folder and a batch size."""

    where: str
    size: tuple[str, ...]

    def trace(self, model: str, part: str) -> Task:
        arguments, made = (model, self.where, *self.size), (names.trace(model),)
        return Task(part, f"trace of {model}", GPU, "stage_trace", arguments, made, (names.MACHINE,))

    def schedules(self, model: str) -> Task:
        made = (*_arenas(model, names.RATIO), *(names.caching(model, policy) for policy in names.POLICIES))
        arguments, needs = (model, self.where), (names.trace(model),)
        return Task("requests", f"schedules of {model}", HOST, "stage_schedules", arguments, made, needs, 300)

    def execution(self, model: str) -> Task:
        made = tuple(names.execution(model, policy) for policy in (names.PLAIN, *names.POLICIES))
        arguments, needs = (model, self.where, *self.size), (names.trace(model), *_arenas(model, names.RATIO))
        return Task("execute", f"execution of {model}", GPU, "stage_execute", arguments, made, needs, 200)

    def bits(self, model: str) -> Task:
        arguments, needs = (model, self.where, *self.size), (names.trace(model), *_arenas(model, names.RATIO))
        return Task("execute", f"bits of {model}", GPU, "stage_bits", arguments, (names.bits(model),), needs)

    def ratios(self, model: str, main: tuple[str, ...]) -> Iterator[Task]:
        """Schedules, and then their execution. The one without eviction is made here for models that are not main."""
        many = tuple(map(str, names.RATIOS))
        plain, needs = names.arena(model, names.PLAIN), (names.trace(model),)
        first = () if model in main else (plain,)
        arenas = tuple(names.arena(model, policy, r) for r in names.RATIOS for policy in names.POLICIES)
        made = tuple(names.execution(model, policy, r) for r in names.RATIOS for policy in names.POLICIES)
        name, arguments = f"more schedules of {model}", (model, self.where, *many)
        yield Task("ratios", name, HOST, "stage_schedules", arguments, (*first, *arenas), needs, 300)
        name, arguments = f"more execution of {model}", (model, self.where, *self.size, "--ratios", *many)
        yield Task("ratios", name, GPU, "stage_execute", arguments, made, (*needs, plain, *arenas), 240)

    def smallest(self, model: str) -> Task:
        made, arguments = (names.snapshot(model), names.smallest(model)), (model, self.where, *self.size)
        return Task("requests", f"smallest memory of {model}", GPU, "stage_smallest", arguments, made, (names.MACHINE,))

    def requests(self, model: str) -> Task:
        needs = tuple(names.caching(model, policy) for policy in names.POLICIES)
        made = (*(names.answers(model, policy) for policy in names.POLICIES), names.requests(model))
        arguments = (model, self.where)
        return Task("requests", f"requests of {model}", GPU, "stage_requests", arguments, made, needs)

    def phantom(self, model: str) -> Task:
        made, arguments = (names.phantom(model),), (model, self.where, *self.size)
        return Task("traces", f"phantom of {model}", HOST, "stage_phantom", arguments, made, (names.MACHINE,))

    def live(self, *, phantom: bool) -> Iterator[Task]:
        """The cases on the card, or on the phantom as this card."""
        for case in live_cases.CASES:
            needs = (names.MACHINE, *((names.live(live_cases.by_name(case.plain).key),) if case.plain else ()))
            arguments = (case.key, self.where, *self.size, *(("--phantom",) if phantom else ()))
            made = names.live_phantom(case.key) if phantom else names.live(case.key)
            name, lane = (f"phantom's run of {case.name}", HOST) if phantom else (f"run of {case.name}", GPU)
            yield Task("live", name, lane, "stage_live", arguments, (made,), needs)

    def peaks(self, which: str, part: str) -> Iterator[Task]:
        """The scripts' on the card, and on the phantom as this card; not beside what is timed."""
        for lane, flags in ((GPU, ()), (HOST, ("--phantom",))):
            made = names.peaks(which, phantom=lane == HOST)
            name = f"peaks of {which}" + " on the phantom" * (lane == HOST)
            after = names.peaks(which, phantom=False) if lane == HOST else names.MACHINE
            yield Task(part, name, lane, "stage_peaks", (which, self.where, *flags), (made,), (after,), 530)

    def calibration(self) -> Iterator[Task]:
        """Only where coopsim has the verb."""
        if importlib.util.find_spec("coopsim.cli.calibrate"):
            made, needs = (names.CALIBRATION,), (names.MACHINE,)
            yield Task("calibrate", "calibration", GPU, "stage_calibrate", (self.where,), made, needs, 400)


def _arenas(model: str, ratio: float) -> tuple[str, ...]:
    """The schedules that are executed at this ratio, the one without eviction first."""
    return (names.arena(model, names.PLAIN), *(names.arena(model, policy, ratio) for policy in names.POLICIES))
