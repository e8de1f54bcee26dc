"""A trace by what users call it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coopsim.base.errors import nearest
from coopsim.base.text import apart, human
from coopsim.base.types import CoopsimError
from coopsim.trace.alive import peak_bytes
from coopsim.trace.file import load
from coopsim.trace.table import Trace

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


def load_all(names: "Iterable[str | Path | Trace]") -> list[tuple[str, Trace]]:
    """Traces, each with the name of its file, or its label; each has a label of its own, and none comes twice.

    names: as of `load_trace`, or `LABEL=NAME`, or traces. Where several have one label, they are told apart by what
    differs in them, or else by their files. CoopsimError for one that cannot be read.
    """
    found: dict[tuple[Any, ...], tuple[str, Trace]] = {}
    for name in names:
        file, trace = (name.label, name) if isinstance(name, Trace) else _called(name)
        found.setdefault((trace.label, trace.content_hash, trace.header.get("card")), (file, trace))
    several = list(found.values())
    if len({trace.label for _, trace in several}) == len(several):
        return several
    own = apart([trace.label for _, trace in several], [_facts(*one) for one in several])
    return [
        (file, trace if trace.label == label else trace.named(label))
        for (file, trace), label in zip(several, own, strict=True)
    ]


def _called(name: str | Path) -> tuple[str, Trace]:
    label, file = with_label(name) if isinstance(name, str) else ("", name)
    trace = load_trace(file)  # raises for what is no name
    return Path(file).name, trace.named(label) if label else trace


def with_label(name: str) -> tuple[str, str]:
    """What `LABEL=NAME` calls a trace, and the name; no label for a name alone, or a file that is there.

    >>> with_label("small=gpt-16.parquet"), with_label("gpt.parquet")
    (('small', 'gpt-16.parquet'), ('', 'gpt.parquet'))
    """
    label, is_called, file = str(name).partition("=")
    return (label, file) if is_called and label and "/" not in label and not Path(name).exists() else ("", name)


def _facts(file: str, trace: Trace) -> dict[str, Any]:
    """What traces of one label are told apart by, the best first."""
    h = trace.header
    known = ("batch", "sequence", "optimizer", "amp", "attention", "gradients", "card")
    versions = h.get("versions")
    return {name: h.get(name) for name in known} | {
        "precision": trace.precision,
        "torch": versions.get("torch") if isinstance(versions, dict) else None,
        "steps": h.get("steps_recorded"),
        "file": "" if file == trace.label else file.removesuffix(".parquet"),
        "peak": human(peak_bytes(trace)),
        "hash": trace.content_hash.removeprefix("blake2b:")[:8],
    }


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
