"""Training steps of a compiled model under several budgets, one after the other. Runs on any card.

    python solved.py MODEL BACKEND BUDGET...

MODEL is llama (experiments/compiled/reading.py's, 6 layers) or gpt (GPT-2's form, as small); a BUDGET with a unit is
bytes for coopsim.run.compile.solver, without one it is torch._functorch.config.activation_memory_budget for PyTorch's
own solver. Prints one JSON object for each: the allocator's peak within forward and backward pass of the third step,
and what the solver expected of it (null: the solver was PyTorch's); or the error, where the solver finds nothing.
"""

import json
import sys

import torch
import torch._functorch.config as config
import transformers
from reading import Summed, build

import coopsim.run.compile

LAYERS, TOKENS, BATCH, VOCABULARY = 6, 256, 16, 1000


class Gpt(torch.nn.Module):
    """GPT-2's form, with a loss."""

    def __init__(self) -> None:
        super().__init__()
        size = {"n_layer": LAYERS, "n_embd": 256, "n_head": 8, "vocab_size": VOCABULARY}
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size, use_cache=False))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=ids, labels=ids).loss
        return loss


def train(name: str, backend: str, budget: str) -> dict[str, object]:
    """Three steps."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    model = (Gpt() if name == "gpt" else Summed(build("llama", LAYERS, TOKENS))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, VOCABULARY, (BATCH, TOKENS), device="cuda")
    config.activation_memory_budget, config.activation_memory_budget_solver = 1.0, "dp"
    solver = None
    if budget[-1].isalpha():
        config.activation_memory_budget_solver = solver = coopsim.run.compile.solver(budget)
    else:
        config.activation_memory_budget = float(budget)
    run = torch.compile(model, backend=backend, dynamic=False)
    peak = 0
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        run(ids).backward()
        peak = torch.cuda.max_memory_allocated()
        optimizer.step()
        optimizer.zero_grad()
    found = {"model": name, "backend": backend, "budget": budget, "peak_bytes": peak, "expected_bytes": None}
    if solver is not None:
        graph = max(solver.chosen, key=lambda chosen: chosen["resident_bytes"] + chosen["peak_bytes"])
        found["expected_bytes"] = graph["resident_bytes"] + graph["peak_bytes"]
        found["recomputed_flops"] = graph["flops"]
        found["graphs"] = len(solver.chosen)
    return found


if __name__ == "__main__":
    for budget in sys.argv[3:]:
        try:
            print(json.dumps(train(*sys.argv[1:3], budget)), flush=True)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            print(json.dumps({"budget": budget, "error": str(error.inner_exception)}), flush=True)
