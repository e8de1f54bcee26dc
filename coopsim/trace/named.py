"""A trace by what users call it."""

from pathlib import Path

from coopsim.errors import nearest
from coopsim.trace.file import load
from coopsim.trace.table import Trace
from coopsim.types import CoopsimError

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "traces", _PACKAGE.parent / "traces")  #: of a wheel, of a checkout


def load_trace(name: str | Path) -> Trace:
    """Load a trace: a file, the name of one that comes with coopsim, or `synth:NAME[:SIZE]`.

    `bert-large` has modelled costs; `bert-large@h100` was recorded, with its costs, on that card.

    CoopsimError if it cannot be read.
    """
    if not isinstance(name, str | Path):
        raise CoopsimError(f"trace {name!r} is no name: give a string, or a path")
    if str(name).startswith("synth:"):
        from coopsim.trace.synth import make

        return make(str(name))
    path = Path(name)
    if path.exists() or path.suffix == ".parquet" or len(path.parts) != 1:
        return load(path)
    return load(shipped_file(str(name)))


def shipped_file(name: str) -> Path:
    """The file of a trace that comes with coopsim. CoopsimError if none has this name."""
    known = shipped()
    if name in known:
        return known[name]
    near = nearest(name, known)
    tip = f"did you mean {' or '.join(near)}?" if near else "coopsim list traces says which come with it"
    raise CoopsimError(f"{name}: no such file, nor a trace that comes with coopsim; {tip}")


def shipped() -> dict[str, Path]:
    """The traces that come with coopsim, by name: of the phantom GPU, then MODEL@CARD, measured on a card."""
    folder = next((f for f in _FOLDERS if f.is_dir()), _FOLDERS[0])
    return {path.stem: path for at in ("*.parquet", "*/*@*.parquet") for path in sorted(folder.glob(at))}
