"""The tables of docs/live-internals.md and of the README beside, from expected/live/memory.csv."""

from collections.abc import Iterable, Iterator

ONLY_BESIDE = ("vit-b", "t5-base")  #: checkpointing: no shares of the plain step
HOW = ("plain", "checkpoint", "selective")
LIVE, ARENA = "live, ", "arena, "  #: before what the budget is
SHARES = (70, 50, 30)
BESIDE = {
    "checkpointing": "checkpoint",
    "live in what it reserves": "live, what checkpoint reserves",
    "live in what it allocates": "live, what checkpoint allocates",
    "live in half of that": "live, half of what it allocates",
}


def tables(known: list[dict[str, str]]) -> dict[str, str]:
    """In Markdown, by section: shares of the plain step, a row per model; and beside checkpointing."""
    shares = [f"live in {share} %" for share in SHARES]
    first = header("model", "plain, MiB", "checkpointing: memory", "overhead", "selective: memory", "overhead", *shares)
    second = header("model", *BESIDE)
    for model in dict.fromkeys(r["model"] for r in known):
        by_how = {r["how"]: r for r in known if r["model"] == model}
        if model not in ONLY_BESIDE:
            first.append(row_of(in_shares(model, by_how)))
        cells = (beside(by_how.get(how), by_how.get(how.replace(LIVE, ARENA))) for how in BESIDE.values())
        second.append(row_of([model, *cells]))
    return {"live tables": "\n".join(first), "live beside checkpointing": "\n".join(second)}


def header(*names: str) -> list[str]:
    """Of a table."""
    return [row_of(names), "|" + " --- |" * len(names)]


def row_of(cells: Iterable[str]) -> str:
    """Of a table."""
    return f"| {' | '.join(cells)} |"


def in_shares(model: str, by_how: dict[str, dict[str, str]]) -> Iterator[str]:
    """A row: what the plain step allocates; how much of that checkpointing does; live, and the same in an arena."""
    plain = int(by_how["plain"]["allocated_bytes"])
    yield model
    yield mib(str(plain))
    for how in HOW[1:]:
        yield f"{100 * int(by_how[how]['allocated_bytes']) / plain:.0f} %"
        yield outcome(by_how[how])
    for share in SHARES:
        live, arena = (outcome(by_how[f"{kind}{share} %"]) for kind in (LIVE, ARENA))
        yield live if live == arena else f"{live}; in an arena {arena}"


def beside(r: dict[str, str] | None, arena: dict[str, str] | None) -> str:
    """A cell: bytes and overhead; in an arena, where that fits and PyTorch's caching allocator does not."""
    if r is None:
        return ""
    where = mib(r["budget_bytes"]) or f"{mib(r['allocated_bytes'])}, reserved {mib(r['reserved_bytes'])}"
    helped = outcome(arena) if arena is not None and arena["fits"] == "True" and r["fits"] != "True" else ""
    return f"{where}: {outcome(r)}" + (f"; in an arena {helped}" if helped else "")


def outcome(r: dict[str, str]) -> str:
    """Overhead in %, or why there is none."""
    if r["fits"] == "True":
        return "" if r["how"] == "plain" else f"{100 * (float(r['predicted_overhead']) - 1):.1f} %"
    least = int(r["lower_bound_bytes"])
    if least > int(r["budget_bytes"]):
        return f"nothing fits below {mib(str(least))}"
    return "no plan" if not r["reserved_bytes"] else f"reserves {mib(r['reserved_bytes'])}"


def mib(nbytes: str) -> str:
    """Rounded."""
    return f"{int(nbytes) / 2**20:.0f}" if nbytes else ""
