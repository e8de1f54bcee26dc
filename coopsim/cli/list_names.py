"""coopsim list policies|allocators|models|hardware."""

import argparse
import json

from coopsim.text import table
from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    if args.choices and args.what != "policies":
        raise CoopsimError(f"--choices is of policies, not of {args.what}")
    rows = {"policies": _policies, "allocators": _allocators, "models": _models, "hardware": _hardware}[args.what]()
    if args.json:
        print(json.dumps(rows, indent=1))
    elif args.what == "policies" and not args.choices:
        header = ("policy", "what it does", "plans", "where from")
        print(table(header, [[row[key] for key in ("policy", "summary", "plans", "source")] for row in rows]))
        print("\nplans: goes by plan where steps repeat or, offline, are known. --choices shows what each is made of")
    else:
        for row in rows:
            row.pop("summary", None)
            row.pop("plans", None)
        print(table(list(rows[0]), [list(row.values()) for row in rows]))
    return 0


def _policies() -> list[dict[str, str]]:
    from coopsim import policies

    found = [policies.find(name) for name in policies.names()]
    return [
        {"policy": p.name}
        | policies.choices(p)
        | {"source": p.source, "summary": p.summary, "plans": "yes" if p.plans else "no"}
        for p in found
    ]


def _allocators() -> list[dict[str, str]]:
    from coopsim import allocators

    return [{"allocator": n, "what it is": allocators.find(n).summary} for n in allocators.names()]


def _models() -> list[dict[str, str]]:
    from coopsim.capture import models

    return [{"model": name, "what it is": text} for name, text in models.names().items()]


def _hardware() -> list[dict[str, str]]:
    from coopsim.phantom import profiles

    return [{"card": name, "what it is": text} for name, text in profiles.names().items()]
