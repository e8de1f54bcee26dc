"""Settings of programs without a parser, which read words `name=value` or `--name=value` themselves."""

import ast
import functools
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from torch import nn

PLAIN = (bool, int, float, str, type(None))
_NO_SETTINGS = (type, ModuleType, FunctionType, nn.Module)
_PLAIN_ATTRIBUTES = (GetSetDescriptorType, MemberDescriptorType)  #: `__dict__`, unless a class computes it
_DEEPEST = 8  #: settings within settings


def said(words: Sequence[str]) -> dict[str, str]:
    """Return the values of words `name=value`, by name as typed, dashes included: {"--model.depth": "2"}."""
    found = (word.partition("=") for word in words if "=" in word)
    return {name: value for name, _, value in found if all(part.isidentifier() for part in name.strip("-").split("."))}


def leaves(config: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested settings with their names, joined by dots."""
    inner = _settings(config) if path.count(".") < _DEEPEST else None
    if inner is None:
        yield path, config
        return
    for name, value in inner.items():
        if isinstance(name, str):
            yield from leaves(value, f"{path}.{name}" if path else name)


def settings(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings that have all names which the words set: by option.

    They are those of a dict or of an object's attributes, nested or not, that have the words' numbers and truth values,
    and at least half of all values: programs complete paths. Of several, the one with the most; {} if there is none. A
    model's attributes are none.
    """
    values = {name.strip("-"): value for name, value in said(words).items()}
    if not values:
        return {}
    dashes = "--" if any(name.startswith("--") for name in said(words)) else ""
    firsts = {name.partition(".")[0] for name in values}
    best: dict[str, Any] = {}
    for one in gc.get_objects():
        inner = _settings(one)
        if inner is None or "__builtins__" in inner or not firsts <= inner.keys():
            continue
        plain = {name: value for name, value in leaves(one) if isinstance(value, PLAIN)}
        if len(plain) > len(best) and plain.keys() >= values.keys():
            other = [name for name, text in values.items() if not _is_said(plain[name], text)]
            if 2 * len(other) <= len(values) and not any(
                isinstance(_literal(values[name]), int | float) for name in other
            ):
                best = plain
    return {f"{dashes}{name}=": value for name, value in best.items()}


def _settings(one: Any) -> Mapping[str, Any] | None:
    """Return a dict, or the attributes of an object, without running code of theirs; None for what has no settings."""
    kind = type(one)
    if issubclass(kind, dict):
        return one if kind is dict else dict(dict.items(one))
    return object.__getattribute__(one, "__dict__") if _has_attributes(kind) else None  # type: ignore[arg-type]


@functools.cache
def _has_attributes(kind: type) -> bool:
    found = next((vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)), None)
    return isinstance(found, _PLAIN_ATTRIBUTES) and not issubclass(kind, _NO_SETTINGS)


def _is_said(value: Any, text: str) -> bool:
    return bool(value == _literal(text)) or str(value).lower() == text.lower()


def _literal(text: str) -> Any:
    """Return what Python makes of a word; itself if that is nothing."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def of_main_module(file: Path) -> dict[str, Any]:
    """Return the main module's globals of plain values, if its file, or one that it executes, sets them by sys.argv.

    By option, `--name=`.
    """
    if file.suffix != ".py" or not file.is_file():
        return {}
    try:
        text = file.read_text(encoding="utf-8")
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "exec"]
    except (SyntaxError, ValueError, OSError):
        return {}
    named = [str(n.value) for call in calls for n in ast.walk(call) if isinstance(n, ast.Constant)]
    executed = [file.parent / name for name in named if name.endswith(".py")]
    sources = [text, *(path.read_text(encoding="utf-8", errors="replace") for path in executed if path.is_file())]
    if not any("sys.argv" in source and "globals()" in source for source in sources):
        return {}
    return {
        f"--{name}=": value
        for name, value in vars(sys.modules["__main__"]).items()
        if name[:1] != "_" and isinstance(value, PLAIN) and value is not None
    }
