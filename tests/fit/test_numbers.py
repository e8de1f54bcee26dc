"""What keeps the numbers keeps every bit of every gradient: the same step with and without, on the CPU."""

import pytest

from tests.capture.conftest import Runner

#: A model and its loss by name. `blocks` says which level is recomputed.
MODELS = {
    "mlp": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 16))
    def forward(self, x):
        return x + self.layers(x)
model = nn.Sequential(*[Block() for _ in range(4)])
def loss():
    return model(torch.linspace(-1, 1, 128).reshape(8, 16)).square().mean()
""",
    "transformer": """
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
model = nn.TransformerEncoder(layer, 4)
def loss():
    return model(torch.linspace(-1, 1, 8 * 5 * 16).reshape(8, 5, 16)).square().mean()
""",
    "bert": """
from transformers import BertConfig, BertForSequenceClassification
config = BertConfig(num_hidden_layers=4, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=50)
model = BertForSequenceClassification(config)
def loss():
    ids = torch.arange(40).reshape(4, 10)
    return model(input_ids=ids, labels=torch.tensor([0, 1, 0, 1])).loss
""",
    "gpt2": """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=32, n_head=2, vocab_size=50, n_positions=16))
def loss():
    ids = torch.arange(40).reshape(4, 10)
    return model(input_ids=ids, labels=ids).loss
""",
    "t5": """
from transformers import T5Config, T5ForConditionalGeneration
config = T5Config(num_layers=2, d_model=32, d_kv=8, num_heads=2, d_ff=64, vocab_size=50, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config)
model.config.use_cache = model.decoder.config.use_cache = {cached}
def loss():
    ids = torch.arange(40).reshape(4, 10)
    return model(input_ids=ids, labels=ids).loss
""",
}
PROGRAM = """
import torch
from torch import nn
from coopsim.fit.inside import blocks, checkpoint
torch.manual_seed(0)
{model}
model.train()

def gradients():
    model.zero_grad()
    torch.manual_seed(1)
    calls.clear()
    loss().backward()
    names = [n.replace("_checkpoint_wrapped_module.", "") for n, _ in model.named_parameters()]
    return dict(zip(names, [p.grad.clone() for p in model.parameters()])), len(calls)

if {save}:
    checkpoint.without_cache(model)
calls = []
nn.Linear.forward = (lambda plain: lambda self, x: (calls.append(1), plain(self, x))[1])(nn.Linear.forward)
before, plain_calls = gradients()
names = blocks.repeated(model)[0]
own = all(hasattr(model.get_submodule(n), "gradient_checkpointing") for n in names)
chosen = names[:{count}]
checkpoint.apply(model, tuple(chosen), own=own, save={save})
after, calls_after = gradients()
answer({{
    "blocks": len(names),
    "own": own,
    "again": calls_after - plain_calls,
    "same": before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before),
}})
"""


def program(model: str, count: int, *, cached: bool = False, save: tuple[str, ...] = ()) -> str:
    return PROGRAM.format(model=MODELS[model].replace("{cached}", str(cached)), count=count, save=save)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_bit_for_bit_the_same(model: str, count: int, on_phantom: Runner) -> None:
    found = on_phantom(program(model, count))
    assert found["blocks"] == 4
    assert found["own"] == (model in ("bert", "gpt2", "t5"))
    assert found["same"]
    if model != "gpt2":  # whose layers are Conv1D
        linear = {"mlp": 2, "transformer": 2, "bert": 6, "t5": 0}[model]
        assert found["again"] >= count * linear
        assert found["again"] > 0


@pytest.mark.parametrize("model", MODELS)
def test_selective_checkpointing_keeps_every_bit_too(model: str, on_phantom: Runner) -> None:
    found = on_phantom(program(model, 4, save=("aten.addmm.default", "aten.mm.default")))
    assert found["same"]
    assert model == "gpt2" or found["again"] > 0  # its layers are Conv1D


def test_why_a_cache_of_keys_and_values_is_said_to_change_numbers(on_phantom: Runner) -> None:
    """Checkpointing turns it off, and keys and values then lie otherwise in memory."""
    assert on_phantom(program("t5", 4, cached=True))["same"] is False


BATCH_NORM = """
import torch
from torch import nn
from coopsim.fit.inside import checkpoint
block = lambda: nn.Sequential(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)))
torch.manual_seed(0)
model = nn.ModuleList([block()]).append(block())
x = torch.linspace(-1, 1, 96).reshape(2, 3, 4, 4)
def means():
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.reset_running_stats()
    model[1](model[0](x)).sum().backward()
    return [m.running_mean.clone() for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
before = means()
checkpoint.apply(model, ("0", "1"), own=False)
answer(all(torch.equal(a, b) for a, b in zip(before, means())))
"""


def test_why_batch_normalisation_is_said_to_change_numbers(on_phantom: Runner) -> None:
    assert on_phantom(BATCH_NORM) is False
