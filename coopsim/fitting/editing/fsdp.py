"""Edit the user's calls of FSDP, where they are certain: FullyShardedDataParallel and fully_shard."""

import textwrap

from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import source
from coopsim.fitting.survey import Sharding

_FIRST = "FullyShardedDataParallel"
#: The names under which scripts call each function.
_NAMES = {_FIRST: (_FIRST, "FSDP"), "fully_shard": ("fully_shard",)}
_STRATEGY = "sharding_strategy"
_IMPORT = "from torch.distributed.fsdp import ShardingStrategy"
_NOT_AHEAD = {"backward_prefetch": "None", "forward_prefetch": "False"}


def lines(call: Sharding, changes: Changes) -> tuple[str, ...]:
    """Return the lines to paste in place of a call; () if it does not change.

    Where the call's text is not certain, they name its new arguments only.
    """
    if new := replaced(call, changes):
        return tuple(textwrap.dedent(source.indent(call.file, call.line) + new[1]).splitlines())
    wanted = values(call, changes)
    if not wanted:
        return ()
    said = ", ".join(f"{name}={'ShardingStrategy.' * (name == _STRATEGY)}{value}" for name, value in wanted.items())
    return (*((_IMPORT,) if _STRATEGY in wanted else ()), f"{call.type}(..., {said})")


def values(call: Sharding, changes: Changes) -> dict[str, str]:
    """Return the arguments that `changes` give a call, by name; {} if it does not change."""
    found = {}
    if changes.reshard and call.keeps:
        found[_STRATEGY if call.type == _FIRST else "reshard_after_forward"] = call.keeps
    if changes.limit_gathers and call.unlimited:
        found["limit_all_gathers"] = "True"
    if changes.no_prefetch:
        found |= {name: _NOT_AHEAD[name] for name in call.ahead}
    return found


def replaced(call: Sharding, changes: Changes) -> tuple[str, str] | None:
    """Return the text of a call, and its new text.

    None if `changes` do not change it, or if its line does not have exactly one such call with written-out arguments.
    """
    wanted = values(call, changes)
    found = [text for name in _NAMES[call.type] if (text := source.call_text(call.file, call.line, name))]
    if not wanted or len(found) != 1:
        return None
    new = found[0]
    for name, value in wanted.items():
        new = new and source.with_value(new, name, value, member=name == _STRATEGY)
    return (found[0], new) if new else None
