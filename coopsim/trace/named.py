"""A trace by what users call it."""

from pathlib import Path

from coopsim.trace.file import load
from coopsim.trace.table import Trace
from coopsim.types import CoopsimError


def load_trace(name: str | Path) -> Trace:
    """Load a trace: a file, or a synthetic one, `synth:NAME[:SIZE]`. CoopsimError if it cannot be read."""
    if str(name).startswith("synth:"):
        from coopsim.trace.synth import make

        return make(str(name))
    path = Path(name)
    if not path.suffix and not path.exists() and (near := Path("traces", f"{name}.parquet")).exists():
        raise CoopsimError(f"{name}: no such file; did you mean {near}?")
    return load(path)
