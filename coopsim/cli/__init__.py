"""The command line, with one file per verb. Nothing slow is imported before a verb runs."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from coopsim.base.types import CoopsimError

USAGE, INTERRUPTED = 2, 130
_RUN_PYTORCH = ("capture", "fit", "live", "phantom")
_READ = ("trace", "traces", "file", "schedule", "log", "timeline_params")
_WRITTEN = ("output", "torch_snapshot", "perfetto")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Bad input gives a line on stderr and exit code 2, never a traceback."""
    from coopsim.cli.parser import build

    try:
        words = sys.argv[1:] if argv is None else argv
        args = build(words).parse_args(words)
        _check_names(args)
        _keep_what_is_read(args)
        _note_untested(args)
        with _terminated_cleanly():
            code: int = args.run(args)
        if sys.stdout:  # None if it was closed
            sys.stdout.flush()
    except CoopsimError as e:
        print(f"coopsim: {e}", file=sys.stderr)
        return getattr(e, "exit_code", USAGE)
    except KeyboardInterrupt:
        print("coopsim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except RecursionError:
        print("coopsim: the input is nested too deeply", file=sys.stderr)
        return USAGE
    except BrokenPipeError:  # the reader (`head`) has gone: not our failure
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as e:
        what = f"{e.filename}: {e.strerror}" if e.filename else str(e)
        print(f"coopsim: {what}", file=sys.stderr)
        return USAGE
    return code


def _check_names(args: argparse.Namespace) -> None:
    """Raise CoopsimError for a file name that is not UTF-8, which Arrow can neither read nor write."""
    for path in _given(args, _READ + _WRITTEN):
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        if shown != str(path):
            raise CoopsimError(f"{shown}: a name that is not UTF-8; rename the file")


def _keep_what_is_read(args: argparse.Namespace) -> None:
    """Raise CoopsimError if an output file has no name or is also an input, except for `plan`, which adds a column."""
    files = [os.path.realpath(f) for f in _given(args, _READ) if os.path.isfile(f)]
    for path in _given(args, _WRITTEN):
        if not path:
            raise CoopsimError("the name of a file to write is empty")
        if args.verb != "plan" and os.path.realpath(path) in files:
            raise CoopsimError(f"{path}: is an input; choose another output file")


def _note_untested(args: argparse.Namespace) -> None:
    """Say in one line if the verb runs PyTorch, and the installed versions are not among those that were tested."""
    if args.verb in _RUN_PYTORCH:
        from coopsim.base.progress import note
        from coopsim.record.observe import tested

        if said := tested.untested():
            note(said)


def _given(args: argparse.Namespace, names: Sequence[str]) -> Iterator[str]:
    """Yield the paths in those of the named arguments that the verb has."""
    for value in (getattr(args, name, None) for name in names):
        if value is not None:
            yield from value if isinstance(value, list) else [value]


@contextlib.contextmanager
def _terminated_cleanly() -> Iterator[None]:
    """Within the context, handle SIGTERM like Ctrl-C; then restore its handler."""
    try:
        before = signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:  # not the main thread: the caller handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
