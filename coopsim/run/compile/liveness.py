"""What a graph of PyTorch's takes at its peak: storages, from the op that makes them to the last that uses them."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import optimization_hint

from coopsim.record.observe import torch_private
from coopsim.record.observe.torch_private import has_storage

#: The allocator hands out multiples of this.
GRAIN = 512


def storages(node: fx.Node) -> dict[int, int]:
    """The storages of a node's results: bytes by key. Nodes that are views of each other share them."""
    found: dict[int, int] = {}
    for tensor in _tensors(node.meta.get("val")):
        untyped = tensor.untyped_storage()
        nbytes = optimization_hint(untyped.nbytes(), fallback=4096)
        found[untyped._cdata] = -(-nbytes // GRAIN) * GRAIN
    return found


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor) and value.device.type != "cpu" and has_storage(value):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)


class Fusion:
    """What a compiler that makes kernels of several nodes does to their results. Without it every node is run alone.

    Hidden are fusible nodes whose users are fusible, too, and near (with no kernel of a library in between): they have
    no memory of their own. Others may come early: with a fusible node that reads the same, in one kernel. No result is
    counted as written over an operand: Inductor does that, but not always.
    """

    def __init__(self, graph: fx.Graph, *, fuses: bool) -> None:
        kinds = torch_private.get("torch._functorch.partitioners.get_default_op_list")()
        self._fusible = {n for n in graph.nodes if fuses and n.op == "call_function" and kinds.is_fusible(n)}
        self._views = {n for n in graph.nodes if n.op == "call_function" and kinds.is_view(n)}
        self._kernel: dict[fx.Node, int] = {}
        self._calls = 0
        for node in graph.nodes:
            library = node.op == "call_function" and node not in self._fusible and node not in self._views
            self._calls += library and bool(storages(node))
            self._kernel[node] = self._calls

    def hides(self, node: fx.Node) -> bool:
        """Is it part of its users' kernels?"""
        return (
            node in self._fusible
            and bool(node.users)
            and not _reduces(node)
            and all(user in self._fusible and self._kernel[user] == self._kernel[node] for user in node.users)
        )

    def makes(self, nodes: list[fx.Node], hidden: set[fx.Node]) -> dict[fx.Node, int]:
        """When each result comes to be: its place in the order, or that of an earlier kernel that may make it, too."""
        order = {node: at for at, node in enumerate(nodes)}
        early, ready = dict(order), dict[fx.Node, int]()
        reads: dict[fx.Node, set[fx.Node]] = {}
        readers: dict[fx.Node, list[int]] = defaultdict(list)
        for at, node in enumerate(nodes):
            sources = node.all_input_nodes
            through = hidden | self._views
            ready[node] = max((ready[one] if one in through else order[one] + 1 for one in sources), default=0)
            reads[node] = {end for one in sources for end in (reads[one] if one in through else {one})}
            if node not in self._fusible or node in hidden:
                continue
            beside = [when for one in reads[node] for when in readers[one] if ready[node] <= when]
            early[node] = min(beside, default=at)
            for one in reads[node]:
                readers[one].append(at)
        return early


def _reduces(node: fx.Node) -> bool:
    nbytes = sum(storages(node).values())
    return any(sum(storages(operand).values()) > 4 * nbytes for operand in node.all_input_nodes)


def peak_bytes(graph: fx.Graph, held: Callable[[fx.Node], bool], fusion: Fusion) -> int:
    """Bytes beyond what is held anyway, of a graph that is run in its order, each value going with its last use.

    held: is an input kept by others?
    """
    nodes = list(graph.nodes)
    order = {node: at for at, node in enumerate(nodes)}
    hidden = {node for node in nodes if fusion.hides(node)}
    last: dict[fx.Node, int] = {}
    for node in reversed(nodes):
        last[node] = max((last[user] if user in hidden else order[user] for user in node.users), default=order[node])
    kept = {key for node in nodes if node.op == "placeholder" and held(node) for key in storages(node)}
    made_at = fusion.makes(nodes, hidden)
    born: dict[int, dict[int, int]] = defaultdict(dict)
    ends: dict[int, int] = {}
    for node in nodes:
        for key, nbytes in storages(node).items():
            if key in kept or (node in hidden and key not in ends):
                continue
            if key not in ends:
                born[made_at[node]][key] = nbytes
            ends[key] = max(ends.get(key, 0), last[node])
    going: dict[int, list[int]] = defaultdict(list)
    for key, at in ends.items():
        if at < len(nodes) - 1:  # the rest is the graph's output
            going[at].append(key)
    live: dict[int, int] = {}
    now = peak = 0
    for at in range(len(nodes)):
        live |= born[at]
        now += sum(born[at].values())
        peak = max(peak, now)
        for key in going[at]:
            now -= live.pop(key)
    return peak
