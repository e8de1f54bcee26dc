"""Find the repeated blocks of a model, which can be recomputed, and measure what each keeps for its backward pass.

A block is a module of which the model has several in a row; a level is a list of them
(fitting/remedies/checkpointing.py).
"""

import collections
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from coopsim.fitting.inside.models import Models
from coopsim.record.observe.torch_private import current_graph_task_id

_LISTS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
#: Names of arguments with transformers' cache of keys and values.
_CACHES = ("past_key_values", "past_key_value", "layer_past")


class BlockMeter:
    """Finds the blocks at the first call of each model, and measures them in every forward pass."""

    def __init__(self, models: Models) -> None:
        self._names: list[list[list[str]]] = []
        self._kept: dict[int, int] = {}
        self._cached: set[int] = set()
        self._inside: list[tuple[int, int]] = []  #: blocks whose forward pass is under way, and the bytes before it
        self._ops: dict[int, dict[str, list[int]]] = {}
        self._by_name: list[dict[str, nn.Module]] = []
        models.on_first_call.append(self._meet)
        models.around.append(lambda *_: self._inside.clear())  # blocks that raised an error are still in it
        hooks.register_module_forward_pre_hook(self._enter)
        # None of the blocks' own hooks, which a script that copies or saves its model would take along.
        hooks.register_module_forward_hook(self._leave, with_kwargs=True)

    def _meet(self, _: int, model: nn.Module) -> None:
        levels = repeated(model)
        self._names.append(levels)
        self._by_name.append({name: model.get_submodule(name) for names in levels for name in names})
        for block in self._by_name[-1].values():
            self._kept.setdefault(id(block), 0)

    def _enter(self, module: nn.Module, _: Any) -> None:
        if id(module) in self._kept:
            if not self._inside:
                self._ops[id(module)] = {}
            self._inside.append((id(module), torch.cuda.memory_allocated()))

    def op(self, name: str, cost: int, nbytes: int) -> None:
        """Add an op's cost in ns and the bytes that it makes to the outermost block whose forward pass runs, if any."""
        if self._inside and current_graph_task_id() == -1:
            tally = self._ops[self._inside[0][0]].setdefault(name, [0, 0])
            tally[0] += cost
            tally[1] += nbytes

    def _leave(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if id(module) in self._kept:
            named = any(kwargs.get(name) is not None for name in _CACHES)
            if named or any(type(value).__module__ == "transformers.cache_utils" for value in args):
                self._cached.add(id(module))
        if not self._inside or self._inside[-1][0] != id(module):
            return
        _, before = self._inside.pop()
        if torch.is_grad_enabled() and current_graph_task_id() == -1:
            kept = torch.cuda.memory_allocated() - before - _nbytes(result)
            self._kept[id(module)] = max(self._kept[id(module)], kept)

    def levels(self, i: int) -> list[list[dict[str, Any]]]:
        """Return the blocks of model number `i` by level, as dicts of the fields of survey.ModelBlock.

        `kept_bytes` is the most that a forward pass has kept, beyond its result; `ops` are those of the last one.
        """
        return [[self._about(i, name) for name in names] for names in self._names[i]]

    def _about(self, i: int, name: str) -> dict[str, Any]:
        block = self._by_name[i][name]
        norms = [m for m in block.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        return {
            "name": name,
            "kept_bytes": self._kept[id(block)],
            "own": hasattr(block, "gradient_checkpointing"),
            "cached": id(block) in self._cached,
            "statistics": any(m.track_running_stats for m in norms),
            "ops": [{"name": op, "ns": ns, "nbytes": n} for op, (ns, n) in self._ops.get(id(block), {}).items()],
        }


def _nbytes(result: Any) -> int:
    if isinstance(result, torch.Tensor):
        return result.numel() * result.element_size()
    if isinstance(result, dict):
        return sum(map(_nbytes, result.values()))
    return sum(map(_nbytes, result)) if isinstance(result, list | tuple) else 0


def repeated(model: nn.Module) -> list[list[str]]:
    """Return the names of a model's repeated blocks, by level; [] if it has none.

    The outer level are modules of one type in the model's lists, or else anywhere; the inner level, if there is one,
    are those in lists within the outer ones. A block has submodules and parameters: recomputing a single layer saves
    next to nothing.
    """
    outer = _like(model, "", everywhere=False) or _like(model, "", everywhere=True)
    inner = [name for path in outer for name in _like(model.get_submodule(path), path, everywhere=False)]
    return [names for names in (outer, inner) if names]


def _like(module: nn.Module, path: str, *, everywhere: bool) -> list[str]:
    named = list(module.named_children())
    kinds = collections.Counter(type(child) for _, child in named if _is_block(child))
    found = []
    for name, child in named:
        full = f"{path}.{name}" if path else name
        if (everywhere or isinstance(module, _LISTS)) and kinds[type(child)] > 1:
            found.append(full)
        else:
            found += _like(child, full, everywhere=everywhere)
    return found


def _is_block(module: nn.Module) -> bool:
    inner = any(True for _ in module.children()) and any(True for _ in module.parameters())
    return inner and not isinstance(module, _LISTS)
