"""Find the file of the trace that a schedule was made from."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from coopsim.base import files
from coopsim.base.types import CoopsimError
from coopsim.trace import load_trace
from coopsim.trace.named import shipped


def remember(trace: Any, spec: str) -> None:
    """Note in the user's cache where this trace is; errors are ignored, as the note is a convenience only."""
    with suppress(OSError, CoopsimError):
        note = _note(trace.content_hash)
        note.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(note) as part:
            is_file = not spec.startswith("synth:") and Path(spec).exists()
            part.write_text(str(Path(spec).resolve()) if is_file else spec, encoding="utf-8")


def trace_of(schedule: Any, given: str | None, near: str) -> Any:
    """Return the trace that the schedule in the file `near` was made from: the one given, or the one with its hash.

    It is looked for beside the schedule, in the current folder, in traces/, where it was last replayed from, and among
    those that come with coopsim. Raises CoopsimError if it is not found, or if the given one is another.
    """
    wanted = schedule.header.get("trace", "")
    if given is not None:
        trace = load_trace(given)
        if trace.content_hash != wanted:
            raise CoopsimError(f"{near} was made from another trace than {given} ({wanted}, not {trace.content_hash})")
        return trace
    folders = list(dict.fromkeys([Path(near).resolve().parent, Path.cwd(), Path.cwd() / "traces"]))
    for path in _with_hash(folders, wanted):
        with suppress(CoopsimError):  # a damaged copy; another may be whole
            return load_trace(path)
    last = _last_place(wanted)
    if last:
        with suppress(CoopsimError):
            trace = load_trace(last)
            if trace.content_hash == wanted:
                return trace
    for path in _with_hash(list(dict.fromkeys(p.parent for p in shipped().values())), wanted):
        with suppress(CoopsimError):
            return load_trace(path)
    looked = ", ".join(str(folder) for folder in folders) + (f", and no longer {last}" if last else "")
    raise CoopsimError(
        f"the trace of {near} ({wanted}) was not found (looked in {looked}); name it with --trace: its file, a name of "
        "coopsim list traces, or synth:NAME"
    )


def _with_hash(folders: list[Path], wanted: str) -> Iterator[str]:
    """Yield the Parquet files in the folders whose header has this hash."""
    import pyarrow.parquet as pq

    for path in (p for folder in folders for p in sorted(folder.glob("*.parquet"))):
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (OSError, ValueError):
            continue
        if f'"content_hash": "{wanted}"'.encode() in metadata.get(b"coopsim", b""):
            yield str(path)


def _last_place(wanted: str) -> str:
    """Return where the trace was last replayed from; "" if that is not known."""
    with suppress(OSError, ValueError):
        return _note(wanted).read_text(encoding="utf-8").strip()
    return ""


def _note(content_hash: str) -> Path:
    return files.cache_folder() / "traces" / content_hash.replace(":", "-").replace("/", "-")
