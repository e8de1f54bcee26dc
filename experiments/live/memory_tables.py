"""The table of docs/live-internals.md, from expected/live/memory.csv."""

from collections.abc import Iterable, Iterator

ONLY_BESIDE = ("vit-b", "t5-base")  #: checkpointing: no shares of the plain step
HOW = ("plain", "checkpoint", "selective")
LIVE, ARENA = "live, ", "arena, "  #: before what the budget is
SHARES = (70, 50, 30)


def table(known: list[dict[str, str]]) -> str:
    """In Markdown: shares of the plain step, a row per model."""
    shares = [f"live in {share} %" for share in SHARES]
    names = ["model", "plain, MiB", "checkpointing: memory", "overhead", "selective: memory", "overhead", *shares]
    lines = [row_of(names), "|" + " --- |" * len(names)]
    models = (model for model in dict.fromkeys(r["model"] for r in known) if model not in ONLY_BESIDE)
    lines += [row_of(in_shares(model, {r["how"]: r for r in known if r["model"] == model})) for model in models]
    return "\n".join(lines)


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
