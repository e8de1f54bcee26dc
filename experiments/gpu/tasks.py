"""What is to be done, most valuable first, and what each needs. A task is done when all its files are there."""

from dataclasses import dataclass
from pathlib import Path

from experiments.gpu import names

GPU, HOST = "gpu", "host"


@dataclass(frozen=True)
class Task:
    """A program of this folder with its arguments.

    lane: tasks of a lane run one after the other, the two lanes side by side. makes, needs: names of files. limit_s:
    it is ended after so long. For a task that makes no file, being done is to have run.
    """

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


def plan(folder: Path, main: tuple[str, ...], others: tuple[str, ...], batch: int | None) -> list[Task]:
    """All tasks for these models, the most valuable first."""
    where = str(folder)
    size = () if batch is None else (str(batch),)

    def trace(model: str) -> Task:
        return Task(
            f"trace of {model}", GPU, "stage_trace", (model, where, *size), (names.trace(model),), (names.MACHINE,)
        )

    def schedules(model: str) -> Task:
        arenas = [names.arena(model, policy) for policy in (names.PLAIN, *names.POLICIES)]
        made = (*arenas, *(names.caching(model, policy) for policy in names.POLICIES))
        return Task(
            f"schedules of {model}", HOST, "stage_schedules", (model, where), made, (names.trace(model),), limit_s=300
        )

    def execution(model: str) -> Task:
        every = (names.PLAIN, *names.POLICIES)
        made = tuple(names.execution(model, policy) for policy in every)
        needs = (names.trace(model), *(names.arena(model, policy) for policy in every))
        return Task(f"execution of {model}", GPU, "stage_execute", (model, where, *size), made, needs, limit_s=200)

    def smallest(model: str) -> Task:
        made = (names.snapshot(model), names.smallest(model))
        return Task(f"smallest memory of {model}", GPU, "stage_smallest", (model, where, *size), made, (names.MACHINE,))

    def requests(model: str) -> Task:
        needs = tuple(names.caching(model, policy) for policy in names.POLICIES)
        made = (*(names.answers(model, policy) for policy in names.POLICIES), names.requests(model))
        return Task(f"requests of {model}", GPU, "stage_requests", (model, where), made, needs)

    def phantom(model: str) -> Task:
        made = (names.phantom(model),)
        return Task(f"phantom of {model}", HOST, "stage_phantom", (model, where, *size), made, (names.MACHINE,))

    return [
        Task("machine", GPU, "stage_machine", (where,), (names.MACHINE,), limit_s=60),
        Task("compile the core", HOST, "stage_warm", (), (), limit_s=400),
        *map(trace, main),
        *map(schedules, main),
        *map(execution, main),
        *map(trace, others[:1]),
        *map(smallest, main),
        *map(trace, others[1:]),
        *map(requests, main),
        *map(phantom, (*main, *others)),
    ]
