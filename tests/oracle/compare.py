"""Where the simulation and the real allocator differ, and the shortest stream that shows it."""

from dataclasses import replace

from coopsim.allocators.caching import case
from coopsim.types import CoopsimError
from tests.oracle.build import Oracle
from tests.oracle.streams import Stream


def simulate(stream: Stream, version: str) -> list[str]:
    """The lines of the simulation; one line `refused ...` if it takes the settings for wrong."""
    try:
        return list(case.answer(case.Case(stream.conf, stream.total, stream.ops, case.read(stream.ops)), version))
    except CoopsimError as e:
        return [f"refused {e}"]


def _plain(lines: list[str]) -> list[str]:
    """Refusals are equal whatever their words."""
    return ["refused"] if lines and ("refused " in lines[-1] or "what():" in lines[-1]) else lines


def difference(stream: Stream, oracle: Oracle) -> tuple[str, str] | None:
    """The first pair of lines that differ: ours, the real one's."""
    ours = _plain(simulate(stream, oracle.version))
    real = _plain(oracle.ask(stream.conf, stream.total, stream.ops))
    if ours == real:
        return None
    for a, b in zip(ours, real, strict=False):
        if a != b:
            return a, b
    return f"{len(ours)} lines", f"{len(real)} lines"


def _parts(ops: list[str]) -> list[list[int]]:
    """Requests that go together: all that concern one allocation; each other one alone."""
    parts: dict[str, list[int]] = {}
    for i, op in enumerate(ops):
        words = op.split()
        parts.setdefault(words[1] if words[0] in "afr" else f"#{i}", []).append(i)
    return list(parts.values())


def shrink(stream: Stream, oracle: Oracle) -> Stream:
    """A shorter stream that still differs: chunks of requests are left out, ever smaller ones, while it does."""
    keep = _parts(stream.ops)
    chunk = max(1, len(keep) // 2)
    while True:
        at, shorter = 0, False
        while at < len(keep):
            fewer = keep[:at] + keep[at + chunk :]
            numbers = sorted(i for part in fewer for i in part)
            if difference(replace(stream, ops=[stream.ops[i] for i in numbers]), oracle):
                keep, shorter = fewer, True
            else:
                at += chunk
        if chunk == 1 and not shorter:
            break
        chunk = max(1, chunk // 2)
    return replace(stream, ops=[stream.ops[i] for i in sorted(i for part in keep for i in part)])
