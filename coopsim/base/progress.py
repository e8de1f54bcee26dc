"""What people see on stderr while something runs: progress and notes."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Tick(Protocol):
    """Called once for each part of the work that is done."""

    def __call__(self) -> None: ...


@contextmanager
def watch(what: str, *, lines: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Progress on stderr, with an estimate of the time left; a line every tenth where stderr is no terminal.

    In a notebook one line of the cell's output is kept up to date, and gone at the end. lines: whether there is
    anything elsewhere than in a terminal and in a notebook. Gives a function report(done, total), to be called first
    with what is done already, which does not count as speed.
    """
    if type(sys.stderr).__module__.startswith("ipykernel"):
        with _displayed() as say:
            yield _Lines(what, say).report
        return
    if not sys.stderr.isatty():
        yield _Lines(what).report if lines else lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: list[Any] = []

        def report(done: int, total: int) -> None:
            if tasks:
                bar.update(tasks[0], completed=done, total=total)
            else:
                tasks.append(bar.add_task(what, completed=done, total=total))

        yield report


@contextmanager
def _displayed() -> Iterator[Callable[[str], None]]:
    """Within the context, give a function that shows a text in the output of a notebook's cell, the last one only."""
    from IPython.display import display

    shown: list[Any] = []

    def say(text: str) -> None:
        if shown:
            shown[0].update({"text/plain": text}, raw=True)
        else:
            shown.append(display({"text/plain": text}, raw=True, display_id=True))  # type: ignore[no-untyped-call]

    try:
        yield say
    finally:
        if shown:
            say("")


class _Lines:
    """Progress as plain lines, one a second at most."""

    def __init__(self, what: str, say: "Callable[[str], None] | None" = None) -> None:
        self.what, self.say = what, say or note
        self.start: tuple[float, int] | None = None
        self.tenth, self.said = 0, 0.0

    def report(self, done: int, total: int) -> None:
        """A line at the start, and when a tenth more is done."""
        now, tenth = time.monotonic(), done * 10 // max(total, 1)
        if self.start is None:
            self.start = now, done
            before = f", {done} done before" if done else ""
            self.say(f"{self.what}: {total - done} to do{before}")
            self.said = now
        elif tenth > self.tenth and now > self.said + 1:
            began, first = self.start
            left = (now - began) / (done - first) * (total - done)
            self.say(
                f"{self.what}: {done * 100 // total} %" + (f", about {_duration(left)} left" if done < total else "")
            )
            self.tenth, self.said = tenth, now


def _duration(seconds: float) -> str:
    """As people say it.

    >>> _duration(0.2), _duration(95), _duration(4000)
    ('1 s', '95 s', '67 min')
    """
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress(what: str, total: int) -> Iterator[Tick]:
    """As `watch`, for work that is done from its beginning, one part at a time, also by several threads."""
    done, lock = 0, threading.Lock()
    with watch(what) as report:
        report(0, total)

        def tick() -> None:
            nonlocal done
            with lock:
                done += 1
                report(done, total)

        yield tick


def note(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)
