"""What could be saved for the backward pass: choices within what PyTorch's partitioner can be told, and their figures.

A solver of PyTorch's says which of the values that the partitioner does not recompute by itself may be recomputed. The
minimum cut then decides the rest. Values can also be marked as ones to save, which the cut heeds. Both together are a
choice; its figures come from the partition that PyTorch's own functions make of it.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import fx
from torch.fx.experimental.proxy_tensor import is_sym_node
from torch.utils.checkpoint import CheckpointPolicy

from coopsim.base.types import CoopsimError
from coopsim.record.observe import torch_private
from coopsim.run.compile import liveness
from coopsim.run.compile.liveness import Fusion

_solve_min_cut = torch_private.get("torch._functorch.partitioners.solve_min_cut")
_extract_modules = torch_private.get("torch._functorch.partitioners._extract_fwd_bwd_modules")
_reorder_backward = torch_private.get("torch._functorch.partitioners.reordering_to_mimic_autograd_engine")
_raise_getitems = torch_private.get("torch._functorch.compile_utils.raise_getitems")
_OrderedSet = torch_private.get("torch.utils._ordered_set.OrderedSet")


@dataclass(frozen=True)
class CompileChoice:
    """recomputed: of the values that are not recomputed otherwise. saved: to save in any case."""

    recomputed: frozenset[fx.Node]
    saved: frozenset[fx.Node]


@dataclass(frozen=True)
class Figures:
    """Of forward and backward passes: bytes at the peak beyond what is there before; what is run twice."""

    peak_bytes: int
    flops: float
    recomputed_bytes: int

    @property
    def cost(self) -> tuple[float, int, int]:
        return self.flops, self.recomputed_bytes, self.peak_bytes


@dataclass(frozen=True)
class Frontier:
    """A moment of the forward pass, after an op that made some bytes: what is used later, inputs aside."""

    made_bytes: int
    nbytes: int
    values: tuple[fx.Node, ...]


class CompileProblem:
    """One joint graph that is being partitioned, from within the solver's call. fuses: does the backend fuse ops?"""

    def __init__(self, joint_graph: fx.Graph, node_info: Any, nodes: list[fx.Node]) -> None:
        outer, inner = _frame("min_cut_rematerialization_partition"), _frame("choose_saved_values_set")
        self._outputs: int = outer.f_locals["num_fwd_outputs"]
        self._module: fx.GraphModule = outer.f_locals["joint_module"]
        self._options = inner.f_locals["aggressive_options"]
        self.fuses = _compiles_kernels()
        self.by_default: list[fx.Node] = inner.f_locals["runtime_optimized_saved_values"]
        self.flops = dict(zip(nodes, inner.f_locals["runtimes_banned_nodes"], strict=True))
        self.nodes, self._graph, self._info = nodes, joint_graph, node_info
        self._known: dict[CompileChoice, Figures] = {}

    def figures(self, choice: CompileChoice) -> Figures:
        """What comes of a choice."""
        if choice not in self._known:
            self._known[choice] = self._figures(choice)
        return self._known[choice]

    def _figures(self, choice: CompileChoice) -> Figures:
        unmark = mark(choice)
        try:
            saved, _ = _solve_min_cut(
                self._graph, self._info, self._options, _OrderedSet(n for n in self.nodes if n in choice.recomputed)
            )
        finally:
            unmark()
        symbols = [n for n in saved if is_sym_node(n)]
        values = [n for n in saved if not is_sym_node(n)]
        forward, backward = _extract_modules(
            self._module,
            values,
            saved_sym_nodes=symbols,
            num_fwd_outputs=self._outputs,
            static_lifetime_input_nodes=self._info.static_lifetime_input_nodes,
        )
        backward = _reorder_backward(backward)
        forward, backward = _raise_getitems(forward), _raise_getitems(backward)
        by_name = {node.name: node for node in self._graph.nodes}
        held = {key for node in self._info.inputs for key in liveness.storages(node)}
        results = [node for node in _results(forward)[: self._outputs] if isinstance(node, fx.Node)]
        held |= {key for node in results for key in liveness.storages(node)}
        ahead = liveness.peak_bytes(forward.graph, lambda _: True, Fusion(forward.graph, fuses=self.fuses))
        back = liveness.peak_bytes(
            backward.graph,
            lambda node: any(key in held for key in liveness.storages(node)),
            Fusion(backward.graph, fuses=self.fuses),
        )
        kept = {node.name for node in values}
        outputs = {k: n for node in results for k, n in liveness.storages(node).items()}
        inputs = {key for node in self._info.inputs for key in liveness.storages(node)}
        held_bytes = sum(nbytes for key, nbytes in outputs.items() if key not in inputs)
        first = {node.name for node in forward.graph.nodes if node.op == "call_function"}
        again = [
            by_name[node.name]
            for node in backward.graph.nodes
            if node.op == "call_function" and node.name in first and node.name in by_name and node.name not in kept
        ]
        return Figures(
            peak_bytes=max(ahead, held_bytes + back),
            flops=sum(self.flops.get(node, 0) for node in again),
            recomputed_bytes=sum(sum(liveness.storages(node).values()) for node in again),
        )

    def frontiers(self) -> list[Frontier]:
        """After each op of the forward pass, in its order."""
        order = {node: at for at, node in enumerate(self._info.required_fw_nodes)}
        inputs = {key for node in self._info.inputs for key in liveness.storages(node)}
        last: dict[fx.Node, int] = {}
        for node in order:
            last[node] = max((order[user] for user in node.users if user in order), default=order[node])
        found, alive = [], dict[fx.Node, dict[int, int]]()
        for node, at in order.items():
            alive = {one: own for one, own in alive.items() if last[one] > at}
            own = {key: nbytes for key, nbytes in liveness.storages(node).items() if key not in inputs}
            if own and last[node] > at:
                alive[node] = own
            together: dict[int, int] = {}
            for one in alive.values():
                together |= one
            found.append(Frontier(sum(own.values()), sum(together.values()), tuple(alive)))
        return found


def mark(choice: CompileChoice) -> Any:
    """Mark what is to be saved in any case; the function that is returned unmarks it."""
    before = {node: node.meta.get("recompute") for node in choice.saved}
    for node in choice.saved:
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE

    def unmark() -> None:
        for node, policy in before.items():
            if policy is None:
                del node.meta["recompute"]
            else:
                node.meta["recompute"] = policy

    return unmark


def _results(module: fx.GraphModule) -> list[Any]:
    (output,) = module.graph.find_nodes(op="output")
    return list(output.args[0])


def _frame(function: str) -> FrameType:
    """PyTorch hands its solvers neither the module nor the number of outputs: the callers have them."""
    for frame in _callers():
        if frame.f_code.co_name == function:
            return frame
    raise CoopsimError(f"coopsim.run.compile.solver: called by no {function} of PyTorch's")


def _compiles_kernels() -> bool:
    """Is it Inductor that asks, and no backend that runs op by op?"""
    return any(frame.f_code.co_filename.endswith("_inductor/compile_fx.py") for frame in _callers())


def _callers() -> Iterator[FrameType]:
    """From the innermost on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
