"""Settings in files that the command names: YAML, JSON, TOML. They are found by lines, and changed in place.

What a scan of lines does not see, such as YAML's flow style or values of several lines, is left alone.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coopsim.fitting.editing import texts as sources
from coopsim.fitting.options import Option

_ENDINGS = (".yaml", ".yml", ".json", ".toml")
_LARGEST = 100_000  #: bytes of such a file
_YAML = re.compile(r"^( *)([\"']?)([\w.-]+)\2:(?: +([^#\n]*?))? *(?:#.*)?$", re.M)
_TOML = re.compile(r"^ *(?:\[([\w.\-\" ]+)\]|([\w.-]+) *= *([^#\n]*?)) *(?:#.*)?$", re.M)
_JSON = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[{}\[\]:,]|[^\s{}\[\]:,\"]+")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "none": None, "": None}


def files(command: Sequence[str]) -> list[str]:
    """Return the words of a command, or what follows an equals sign in them, that name a file of settings."""
    words = (part for word in command for part in (word, word.partition("=")[2]))
    return [word for word in words if word.endswith(_ENDINGS) and _is_small(Path(word))]


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _LARGEST


def options(command: Sequence[str]) -> tuple[Option, ...]:
    """Return the settings in the files that a command names, as options."""
    return tuple(
        Option((name,), _value(text), file=file)
        for file in files(command)
        for name, text, _ in _places(sources.read(file), Path(file).suffix)
    )


def changed(file: str, text: str, name: str, value: str) -> str:
    """Return the text of a file with another value of a setting; "" if it does not have the setting exactly once."""
    places = [one for one in _places(text, Path(file).suffix) if one[0] == name]
    if len(places) != 1:
        return ""
    _, old, at = places[0]
    return f"{text[:at]}{_spelled(value, old, Path(file).suffix)}{text[at + len(old) :]}"


def _places(text: str, suffix: str) -> Iterator[tuple[str, str, int]]:
    """Yield the settings of a text: names joined by dots, the text of the value, and where that begins."""
    scan = {".json": _of_json, ".toml": _of_toml}.get(suffix, _of_yaml)
    yield from scan(text)


def _of_yaml(text: str) -> Iterator[tuple[str, str, int]]:
    above: list[tuple[int, str]] = []
    for found in _YAML.finditer(text):
        indent, name, value = len(found[1]), found[3], found[4]
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, name))
        if value and value[0] not in "[{|>&*!":
            yield ".".join(part for _, part in above), value, found.start(4)


def _of_toml(text: str) -> Iterator[tuple[str, str, int]]:
    table = ""
    for found in _TOML.finditer(text):
        if found[1]:
            table = found[1].replace('"', "") + "."
        elif found[3] and found[3][0] not in "[{" and not found[3].startswith((3 * '"', 3 * "'")):
            yield table + found[2], found[3], found.start(3)


def _of_json(text: str) -> Iterator[tuple[str, str, int]]:
    above: list[str] = []  # names of what is open; "" for lists
    name = last = ""
    for found in _JSON.finditer(text):
        part = found[0]
        if part in "{[":
            above.append(name if last == ":" else "")
            name = "" if part == "[" else name
        elif part in "}]":
            above = above[:-1]
        elif last == ":" and "" not in above[1:]:
            yield ".".join([*above[1:], name]), part, found.start()
        elif part[0] == '"':
            name = part[1:-1]
        last = part


def _value(text: str) -> bool | int | float | str | None:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        found: Any = json.loads(text)
    except ValueError:
        return text.strip("\"'")
    return found if isinstance(found, bool | int | float | str) else text


def _spelled(value: str, old: str, suffix: str) -> str:
    """Return a value as the file spells such values: as the old one."""
    if value in ("True", "False"):
        return value if old in ("True", "False") else value.lower()
    is_text = not re.fullmatch(r"-?\d+(\.\d+)?", value)
    quote = old[0] if old[:1] in ('"', "'") else '"' if suffix != ".yaml" and suffix != ".yml" else ""
    return f"{quote}{value}{quote}" if is_text else value
