"""Writes the command line's reference from its parser, where a page says `<!-- the command line -->`."""

import argparse
import re
from collections.abc import Iterator
from typing import Any

from coopsim.cli.parser import build

MARK = "<!-- the command line -->"


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}


def _fill(_app: Any, _page: str, source: list[str]) -> None:
    source[0] = source[0].replace(MARK, "\n".join(pages(build())))


def pages(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Markdown: a section a verb, with its usage, what it is for, and a table of its arguments."""
    for verb in _verbs(parser):
        inner = list(_verbs(verb))
        if inner:
            for action in inner:
                yield from _section(action)
        else:
            yield from _section(verb)


def _verbs(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _section(parser: argparse.ArgumentParser) -> Iterator[str]:
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ").replace("[-h] ", "")).strip()
    yield from (
        f"## `{parser.prog}`",
        "",
        _sentence(parser.description or ""),
        "",
        "```text",
        *_wrapped(usage),
        "```",
        "",
    )
    yield from ("| argument | |", "| --- | --- |")
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            yield f"| {_name(action)} | {_help(action, parser)} |"
    yield ""


def _wrapped(usage: str, width: int = 96) -> list[str]:
    """The usage in lines, broken between arguments."""
    lines, line = [], ""
    for word in re.findall(r"\[[^]]*\](?: ?\.\.\.\])?|\S+", usage):
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = "   "
        line = f"{line} {word}".removeprefix(" ") if not line.startswith("   ") else f"{line} {word}"
    return [*lines, line]


def _name(action: argparse.Action) -> str:
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    if not action.option_strings:
        return f"`{metavar}`".replace("|", "\\|")
    value = "" if action.nargs == 0 else f" {metavar}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings).replace("|", "\\|")


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "") % {"default": action.default, "prog": parser.prog, "dest": action.dest}
    choices = f"one of {', '.join(f'`{c}`' for c in action.choices)}" if action.choices else ""
    if choices and not action.option_strings:
        choices = ""  # its name says so
    words = "; ".join(w for w in (text, choices, "required" if action.required and action.option_strings else "") if w)
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
