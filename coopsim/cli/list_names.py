"""coopsim list [policies|traces|allocators|models|hardware|links]: list what can be chosen; default: all of it."""

import argparse
import json
import textwrap

from coopsim.base.text import human, table
from coopsim.base.types import CoopsimError

_COLUMNS = 100  #: width of the table of policies, at most


def run(args: argparse.Namespace) -> int:
    if args.choices and args.what != "policies":
        raise CoopsimError(f"--choices is for policies, not for {args.what or 'all'}")
    of = {
        "policies": _policies,
        "traces": _traces,
        "allocators": _allocators,
        "models": _models,
        "hardware": _hardware,
        "links": _links,
    }
    rows = {what: find() for what, find in of.items() if args.what in (None, what)}
    if args.json:
        print(json.dumps(rows if args.what is None else rows[args.what], indent=1))
    else:
        print("\n\n".join(_text(what, found, choices=args.choices) for what, found in rows.items()))
    return 0


def _text(what: str, rows: list[dict[str, str]], *, choices: bool) -> str:
    if what != "policies":
        return table(list(rows[0]), [list(row.values()) for row in rows])
    if choices:
        columns = [key for key in rows[0] if key not in ("summary", "plans", "source")]
        return table(columns, [[row[key] for key in columns] for row in rows])
    header, cells = ("policy", "plans", "what it does; where from"), []
    room = _COLUMNS - max(len(row["policy"]) for row in rows) - len("  plans  ")
    for row in rows:
        first, *more = textwrap.wrap(f"{row['summary']}; {row['source']}", room, break_long_words=False)
        cells += [(row["policy"], row["plans"], first), *(("", "", line) for line in more)]
    legend = "plans: follows a plan where steps repeat or, offline, are known. --choices: what each is made of"
    return f"{table(header, cells)}\n\n{legend}"


def _policies() -> list[dict[str, str]]:
    from coopsim.simulate import policies

    found = [policies.find(name) for name in policies.names()]
    return [
        {"policy": p.name}
        | policies.choices(p)
        | {"source": p.source, "summary": p.summary, "plans": "yes" if p.plans else "no"}
        for p in found
    ]


def _traces() -> list[dict[str, str]]:
    from coopsim.trace.file import read_parquet
    from coopsim.trace.named import shipped

    headers = {name: read_parquet(path, "trace")[1] for name, path in shipped().items()}
    return [
        {"trace": name, "peak": human(h["peak_allocated_bytes"]), "batch": str(h["batch"]), "what it is": h["title"]}
        for name, h in headers.items()
    ]


def _allocators() -> list[dict[str, str]]:
    from coopsim.simulate import allocators

    return [{"allocator": n, "what it is": allocators.find(n).summary} for n in allocators.names()]


def _models() -> list[dict[str, str]]:
    from coopsim.record.capture import models

    return [{"model": name, "what it is": text} for name, text in models.names().items()]


def _links() -> list[dict[str, str]]:
    from coopsim.cards import link

    return [{"link": name, "what it is": text} for name, text in link.names().items()]


def _hardware() -> list[dict[str, str]]:
    from coopsim.cards import profiles

    every = map(profiles.get, profiles.names())
    return [
        {"card": p.name, "what it is": p.title, "measured": p.measured.summary if p.measured else ""} for p in every
    ]
