"""Take readings: training passes of a model from transformers, and what PyTorch's allocator held. Runs on any card.

    python reading.py MODEL SCALE BACKEND BUDGET...

prints one JSON object for each budget, one after the other in one process: the bytes resident after a first pass, and
the peak of each of five further ones. BUDGET is torch._functorch.config.activation_memory_budget; BACKEND one of
torch.compile's, or eager for the model as it is.
"""

import json
import sys

import torch
import torch._functorch.config
import transformers

PASSES = 5


class Summed(torch.nn.Module):
    """A model whose loss is the sum of its last hidden state."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model(input_ids=ids).last_hidden_state.sum()
        return loss


def build(name: str, layers: int, tokens: int) -> torch.nn.Module:
    """The small LLaMA, or the small BERT without a pooling layer."""
    if name == "llama":
        heads = {"num_attention_heads": 8, "num_key_value_heads": 8}
        size = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": layers, "vocab_size": 1000}
        return transformers.LlamaModel(transformers.LlamaConfig(**size, **heads, use_cache=False))
    size = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": layers, "vocab_size": 1000}
    positions = max(tokens, 512)
    config = transformers.BertConfig(**size, num_attention_heads=3, max_position_embeddings=positions)
    return transformers.BertModel(config, add_pooling_layer=False)


def reading(name: str, scale: int, backend: str, budget: float) -> dict[str, object]:
    """One reading. The order in which things are made and dropped is that of the measured runs: blocks of the cache
    hang on it, and with them what counts as allocated.
    """
    torch._functorch.config.activation_memory_budget = budget
    tokens = 128 * scale
    model = Summed(build(name, 4 * scale, tokens)).to("cuda")
    ids = torch.randint(0, 1000, (2, tokens)).to("cuda")
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    run = model if backend == "eager" else torch.compile(model, backend=backend, dynamic=False)
    run(ids).backward()
    torch.cuda.synchronize()
    model.zero_grad(set_to_none=False)
    torch.cuda.empty_cache()
    resident, peaks = torch.cuda.memory_allocated(), []
    for _ in range(PASSES):
        torch.cuda.reset_peak_memory_stats()
        run(ids).backward()
        torch.cuda.synchronize()
        peaks.append(torch.cuda.max_memory_allocated())
        model.zero_grad(set_to_none=False)
    del model, ids
    torch.cuda.empty_cache()
    return {"activation_memory_budget": budget, "resident_bytes": resident, "peak_allocated_bytes": peaks}


if __name__ == "__main__":
    for budget in sys.argv[4:]:
        print(json.dumps(reading(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(budget))), flush=True)
