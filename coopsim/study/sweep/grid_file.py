"""A grid in a TOML file (docs/reference/files.md): what `sweep` and `map` otherwise take from flags."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coopsim.base import budget
from coopsim.base.errors import several, unknown
from coopsim.base.types import CoopsimError
from coopsim.study.sweep.options import NAMES
from coopsim.trace.named import with_label

_LISTS = ("traces", "policies", "allocators", "budgets")
_SCAN = ("largest", "smallest", "step", "fine")
KEYS = (*_LISTS, "band", "band_width", *NAMES)  #: of a sweep
FIGURE = "figure"  #: a table that may stand in the file too: what is drawn of it, for whoever draws it
MAP_KEYS = ("traces", "policies", "allocators", *_SCAN, *NAMES)


def read(path: str | Path, keys: tuple[str, ...] = KEYS) -> dict[str, Any]:
    """What the file says, by key; lists for the first four. Paths of traces are made relative to the current folder.

    keys: those that are asked for. CoopsimError, one line, for an unknown key, a value of the wrong kind, or a file
    that is no TOML.
    """
    path = Path(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CoopsimError(f"{path}: no such file") from None
    except OSError as e:
        raise CoopsimError(f"{path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise CoopsimError(f"{path}: not TOML: {str(e).splitlines()[0]}") from None
    if not isinstance(found.pop(FIGURE, {}), dict):
        raise CoopsimError(f"{path}: {FIGURE} is a table, [{FIGURE}]")
    try:
        return _checked(found, path.parent, keys)
    except CoopsimError as e:
        raise CoopsimError(f"{path}: {e}") from None


def _checked(found: Mapping[str, Any], folder: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in found.items():
        if name not in keys:
            raise unknown("key", name, keys)
        result[name] = value
        if name in _LISTS:
            result[name] = several(value)
            if not result[name] or not all(isinstance(text, str) and text for text in result[name]):
                raise CoopsimError(f"{name}: a list of texts is needed, not {value!r}")
    if "traces" in result:
        result["traces"] = [_below(folder, t) for t in result["traces"]]
    if "budgets" in result:
        result["budgets"] = [text for part in result["budgets"] for text in budget.parse_list(part)]
    for name in _SCAN:
        if not isinstance(result.get(name, ""), str):
            raise CoopsimError(f'{name}: {result[name]!r} is not a percentage such as "0.5%"')
    band = result.get("band", 1)
    if isinstance(band, bool) or not isinstance(band, int) or not 1 <= band <= 1_000_000:
        raise CoopsimError(f"band: {band!r} is not a whole number from 1 to a million")
    if "band_width" in result:
        result["band_width"] = _width(result["band_width"])
    return result


def _below(folder: Path, trace: str) -> str:
    label, file = ("", trace) if (folder / trace).exists() else with_label(trace)
    file = file if file.startswith("synth:") else str(folder / file)
    return f"{label}={file}" if label else file


def _width(value: Any) -> float:
    try:
        width = float(value.removesuffix("%")) / 100 if isinstance(value, str) and value.endswith("%") else -1.0
    except ValueError:
        width = -1.0
    if not 0 < width < 1:
        raise CoopsimError(f'band_width: {value!r} is not a percentage between 0% and 100%, such as "5%"')
    return width
