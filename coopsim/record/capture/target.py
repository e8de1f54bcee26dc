"""Load a user's own training step: path/to/file.py:function."""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from coopsim.base.errors import CaptureError, nearest

Step = Callable[[], object]


def split(target: str) -> tuple[Path, str]:
    """Return the file and the function that a target names.

    Raises CaptureError if it names no function, or there is no such file.
    """
    path, _, function = target.rpartition(":")
    if not path or not path.endswith(".py") or not function.isidentifier():
        raise CaptureError(f"{target}: name the function of one training step too, as in {target.rstrip(':')}:step")
    if not Path(path).is_file():
        raise CaptureError(f"{path}: no such file")
    return Path(path), function


def of_function(step: Step) -> str | None:
    """Return the target that names a function of a file, for another process; None if it is none at its top level."""
    name, module = getattr(step, "__qualname__", ""), sys.modules.get(getattr(step, "__module__", None) or "")
    path = getattr(module, "__file__", None) or ""
    if not path.endswith(".py") or not name.isidentifier() or getattr(module, name, None) is not step:
        return None
    return f"{path}:{name}"


def label(target: str) -> str:
    """Return the name for a trace: the function's, or the file's if the function is called `step`."""
    path, _, function = target.rpartition(":")
    return Path(path).stem if function == "step" else function


def load(target: str) -> Step:
    """Import the file, as a module with its folder on sys.path, and return its function.

    Raises CaptureError if there is no such function, and whatever the file itself raises (see `blame`).
    """
    path, function = split(target)
    name = path.stem if path.stem not in sys.modules else f"coopsim_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.absolute()))
    sys.argv = [str(path)]
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        there = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        near = nearest(function, there)
        raise CaptureError(
            f"{path.name} has no function {function!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        )
    step: Step = getattr(module, function)
    if not callable(step):
        raise CaptureError(f"{path.name}: {function!r} is not a function")
    return step


def place(error: BaseException, target: str) -> str:
    """Return file:line of the innermost line in the user's folder where an error was raised, or else the target."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    folder = Path(target.rpartition(":")[0]).parent.absolute()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename]
    own = [f for f in frames if Path(f.filename).absolute().is_relative_to(folder)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else target


def blame(error: BaseException, target: str) -> str:
    """Return one line about an error raised in a user's file: file, line, type and message."""
    first = (str(error).strip().splitlines() or [""])[0]
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return f"{place(error, target)}: {what}"
