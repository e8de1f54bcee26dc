"""What a script keeps from step to step, as `phantom run` prints it."""

from typing import TYPE_CHECKING, Any

from coopsim.base.text import human

if TYPE_CHECKING:
    from coopsim.run import Report


def rows(report: "Report") -> list[tuple[str, str]]:
    """Nothing unless memory grows."""
    grown = report.growth
    if not grown:
        return []
    rate = grown["bytes_per_step"]
    what = f"{human(rate)} per step" if rate else "an autograd graph, in the host's memory,"
    found = [("grows", f"{what} from step {grown['first']} to {grown['last']}{_end(report)}")]
    found += [("", f"{human(one['bytes_per_step']):>10}  {_made(one)}") for one in grown["held"]]
    found += [("kept by" if i == 0 else "", _kept(one)) for i, one in enumerate(grown["kept_in"])]
    if rate and not grown["kept_in"]:
        found.append(
            ("kept by", "no variable: a cycle of autograd's, as backward(create_graph=True) makes, or a library")
        )
    return found


def _end(report: "Report") -> str:
    full = report.full_after(report.memory_bytes) if report.outcome != "oom" else None
    return "" if full is None else f"; at that rate the card is full after some {full} steps"


def _made(one: dict[str, Any]) -> str:
    module = f" in {one['module']}" if one["module"] else ""
    place = f" at {one['place']}" if one["place"] else ""
    return f"by {one['op'] or 'ops that were not seen'}{module}{place}"


def _kept(one: dict[str, Any]) -> str:
    if one["tensors"]:
        what = f"{one['tensors']} tensors of earlier steps, {human(one['bytes'])}"
    elif one["nodes"]:
        what = f"an autograd graph that grows, of {one['nodes']} nodes"
    else:
        what = f"{human(one['bytes'])}, more at each step"
    place = f" at {one['place']}" if one["place"] else ""
    return f"{one['name']} ({one['kind']}){place}: {what}"
