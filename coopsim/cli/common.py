"""What several verbs share: finding traces, progress, tables."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from coopsim.types import CoopsimError


def load_trace(spec: str) -> Any:
    """A trace file, or a synthetic trace `synth:NAME[:SIZE]`."""
    if spec.startswith("synth:"):
        from coopsim.trace.synth import make

        return make(spec)
    from coopsim.trace import load

    return load(spec)


def is_trace(path: str) -> bool:
    """Is it a trace (or some other Parquet file) and not a file of another tool? CoopsimError if it cannot be read."""
    if path.startswith("synth:"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as e:
        raise CoopsimError(f"{path}: {'no such file' if isinstance(e, FileNotFoundError) else e.strerror}") from None


def trace_of(schedule: Any, given: str | None, near: str) -> Any:
    """The trace that a schedule was made from: the one given, or the one with its hash beside it, here, in traces/."""
    wanted = schedule.header.get("trace", "")
    if given is not None:
        trace = load_trace(given)
        if trace.content_hash != wanted:
            raise CoopsimError(f"{near} was made from another trace than {given} ({wanted}, not {trace.content_hash})")
        return trace
    import pyarrow.parquet as pq

    folders = dict.fromkeys([Path(near).resolve().parent, Path.cwd(), Path.cwd() / "traces"])
    for path in (p for folder in folders for p in sorted(folder.glob("*.parquet"))):
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, ValueError):
            continue
        if f'"content_hash": "{wanted}"'.encode() in metadata.get(b"coopsim", b""):
            with suppress(CoopsimError):  # a damaged copy; another may be whole
                return load_trace(str(path))
    raise CoopsimError(f"the trace of {near} ({wanted}) is not here; name its file, or synth:NAME, with --trace")


def timeline_params(args: argparse.Namespace) -> Any:
    """What `--timeline-params` names, or what is shipped if `--timeline` or no such option is there; else None."""
    if args.timeline_params is None and not getattr(args, "timeline", True):
        return None
    from coopsim.timeline import load_params

    return load_params(args.timeline_params)


class Tick(Protocol):
    """Called once for each piece of work done."""

    def __call__(self) -> None: ...


@contextmanager
def progress(what: str, total: int, done: int = 0) -> Iterator[Tick]:
    """A progress bar on stderr with an estimate of the time left; a line every tenth where stderr is no terminal."""
    if not sys.stderr.isatty():
        count = done
        print(f"{what}: {total - done} to do", file=sys.stderr, flush=True)

        def tick() -> None:
            nonlocal count
            count += 1
            if count * 10 // total != (count - 1) * 10 // total:
                print(f"{what}: {count * 100 // total} %", file=sys.stderr, flush=True)

        yield tick
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)


def note(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)
