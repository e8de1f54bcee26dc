"""Chooses what a compiled program saves so that its peak stays below some bytes, at least recomputation."""

import gc
import hashlib
import itertools
from pathlib import Path
from typing import Any

import torch
from torch import fx

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.record.observe import torch_private
from coopsim.record.observe.torch_private import clear_workspaces
from coopsim.run.compile.candidates import CompileChoice, CompileProblem, Figures, Frontier, mark

_SOLVER = "torch._inductor.custom_graph_pass.CustomKnapsackSolver"
if not torch_private.has(_SOLVER):
    raise CoopsimError(f"coopsim.run.compile needs a PyTorch with CustomKnapsackSolver; this is {torch.__version__}")
_CustomKnapsackSolver: Any = torch_private.get(_SOLVER)
_config: Any = torch_private.get("torch._functorch.config")
_dp_knapsack = torch_private.get("torch._functorch._activation_checkpointing.knapsack.dp_knapsack")

#: An activation_memory_budget with which PyTorch asks the solver, whatever the graph.
ASK = 1e-6
#: Of the bytes allowed: so much is left for what no graph says. Blocks that the allocator does not split count whole,
#: and kernels take temporaries.
MARGIN = 0.02
#: The same under Inductor, whose kernels are not known yet: peaks were up to 3 % above what was expected.
FUSED_MARGIN = 0.05
#: Times that a share of the values to save is halved.
_HALVINGS = 5
#: So many sets of boundaries are tried with more saved between them.
_FILLED = 2
#: Forward passes are cut into so many parts.
_PARTS = (4, 8, 16, 32, 64)


class Solver(_CustomKnapsackSolver):  # type: ignore[misc]
    """See coopsim.run.compile.solver. `chosen`: of every graph that was partitioned, what was found, in order."""

    def __init__(self, memory_bytes: int, outside_bytes: int) -> None:
        self.memory_bytes, self.outside_bytes = memory_bytes, outside_bytes
        self.chosen: list[dict[str, Any]] = []

    def uuid(self) -> Any:
        """What the choice depends on besides the graph, for PyTorch's caches."""
        sources = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
        return hashlib.sha256(sources).hexdigest(), self.memory_bytes, self.outside_bytes, resident_bytes()

    def __call__(
        self,
        memory: list[float],
        joint_graph: fx.Graph,
        max_memory: float,  # noqa: ARG002  the ratio, which is not what is asked
        node_info: Any,
        all_recomputable_banned_nodes: list[fx.Node],
    ) -> tuple[list[int], list[int]]:
        """Indices of the values to save, and of those to recompute."""
        problem = CompileProblem(joint_graph, node_info, all_recomputable_banned_nodes)
        resident = resident_bytes() + self.outside_bytes
        margin = FUSED_MARGIN if problem.fuses else MARGIN
        room = int(self.memory_bytes * (1 - margin)) - resident
        choice, figures = choose(problem, memory, room)
        self.chosen.append(vars(figures) | {"resident_bytes": resident})
        if figures.peak_bytes > room:
            least = int((resident + figures.peak_bytes) / (1 - margin))
            raise CoopsimError(
                f"coopsim.run.compile.solver: {human(self.memory_bytes)} are not enough; the least found is "
                f"{human(least)}, of which {human(resident)} are there besides"
            )
        mark(choice)
        nodes = all_recomputable_banned_nodes
        again = [i for i, node in enumerate(nodes) if node in choice.recomputed]
        return [i for i in range(len(nodes)) if i not in set(again)], again


def ask(memory_bytes: int, outside_bytes: int) -> Solver:
    """A solver, and PyTorch set so that it asks one."""
    if _config.activation_memory_budget == 1:
        _config.activation_memory_budget = ASK
    return Solver(memory_bytes, outside_bytes)


def choose(problem: CompileProblem, memory: list[float], room: int) -> tuple[CompileChoice, Figures]:
    """The choice that recomputes least of those found whose peak is within `room`; if there is none, the least peak."""
    tried: list[CompileChoice] = []

    def peak(choice: CompileChoice) -> int:
        tried.append(choice)
        return problem.figures(choice).peak_bytes

    default = CompileChoice(frozenset(), frozenset(node for node in problem.by_default if node.op == "call_function"))
    if peak(default) > room and peak(CompileChoice(frozenset(), frozenset())) > room:
        runtimes = [problem.flops[node] for node in problem.nodes]

        def at(share: float, saved: frozenset[fx.Node]) -> CompileChoice:
            _, _, again = _dp_knapsack(memory, runtimes, share * sum(memory))
            return CompileChoice(frozenset(problem.nodes[i] for i in again), saved)

        # Saving little else, where recomputation ends decides the peak. The best two are filled up.
        for saved in sorted(_boundaries(problem), key=lambda saved: peak(at(0.0, saved)))[:_FILLED]:
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS if peak(at(0.0, saved)) <= room else 0):
                middle = (low + high) / 2
                if peak(at(middle, saved)) <= room:
                    low = middle
                else:
                    high = middle
    within = [choice for choice in tried if problem.figures(choice).peak_bytes <= room]
    if within:
        best = min(within, key=lambda choice: problem.figures(choice).cost)
    else:
        best = min(tried, key=lambda choice: problem.figures(choice).peak_bytes)
    return best, problem.figures(best)


def _boundaries(problem: CompileProblem) -> list[frozenset[fx.Node]]:
    """Values to save so that recomputation ends at them: where least is alive in each of n parts; and none."""
    frontiers = problem.frontiers()
    made = list(itertools.accumulate(one.made_bytes for one in frontiers))
    found: list[frozenset[fx.Node]] = []
    for n in _PARTS:
        parts: dict[int, list[Frontier]] = {}
        for one, until in zip(frontiers, made, strict=True):
            parts.setdefault(min(until * n // (made[-1] + 1), n - 1), []).append(one)
        found.append(frozenset(v for part in parts.values() for v in min(part, key=lambda one: one.nbytes).values))
    return [*dict.fromkeys(found), frozenset()]


#: States of PyTorch's optimizers that come with their first step: numbers per number of a parameter.
STATES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adadelta": 2, "RMSprop": 1, "Muon": 1}


def resident_bytes() -> int:
    """Allocated now, cuBLAS's workspaces for the forward and the backward thread, and states of optimizers to come."""
    clear_workspaces()
    bare = torch.cuda.memory_allocated()
    torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]
    workspace = torch.cuda.memory_allocated() - bare
    return bare + 2 * workspace + sum(map(_states, _optimizers()))


def _optimizers() -> list[torch.optim.Optimizer]:
    return [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]


def _states(optimizer: torch.optim.Optimizer) -> int:
    total = 0
    for group in optimizer.param_groups:
        each = (
            STATES.get(type(optimizer).__name__, 0) + (1 if group.get("momentum") else 0) + bool(group.get("amsgrad"))
        )
        each -= type(optimizer).__name__ == "Muon" and bool(group.get("momentum"))
        for parameter in group["params"]:
            if parameter.is_cuda and parameter not in optimizer.state:
                total += each * -(-parameter.untyped_storage().nbytes() // 512) * 512
    return total
