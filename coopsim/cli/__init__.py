"""The command line. Each verb is one file here; nothing heavy is imported before a verb runs."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence

from coopsim.types import CoopsimError

USAGE, INTERRUPTED = 2, 130
_READ = ("trace", "traces", "file", "schedule", "log", "timeline_params", "temporaries_from")
_WRITTEN = ("output", "torch_snapshot", "perfetto")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Bad input is one line on stderr and exit code 2, never a traceback."""
    from coopsim.cli.parser import build

    args = build().parse_args(argv)
    try:
        _check_names(args)
        _keep_what_is_read(args)
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
    """CoopsimError for a file's name that is not text: Arrow can neither read nor write it."""
    for path in _given(args, _READ + _WRITTEN):
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        if shown != str(path):
            raise CoopsimError(f"{shown}: a name that is not UTF-8; rename the file")


def _keep_what_is_read(args: argparse.Namespace) -> None:
    """CoopsimError if a file to write has no name, or is to be read. (`plan` may add its column to what it reads.)"""
    files = [os.path.realpath(f) for f in _given(args, _READ) if os.path.isfile(f)]
    for path in _given(args, _WRITTEN):
        if not path:
            raise CoopsimError("the name of a file to write is empty")
        if args.verb != "plan" and os.path.realpath(path) in files:
            raise CoopsimError(f"{path}: is to be read; choose another file to write")


def _given(args: argparse.Namespace, names: Sequence[str]) -> Iterator[str]:
    """The paths that these arguments were given, of those that the verb has."""
    for value in (getattr(args, name, None) for name in names):
        if value is not None:
            yield from value if isinstance(value, list) else [value]


@contextlib.contextmanager
def _terminated_cleanly() -> Iterator[None]:
    """Inside, SIGTERM is as Ctrl-C; afterwards it is again what it was to whoever called us."""
    try:
        before = signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:  # not the main thread: whoever called us handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
