"""What keeps the numbers keeps every bit of every gradient: the same step with and without, on the CPU."""

import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.fitting.bench import Bench
from coopsim.fitting.remedies import selective
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import ModelBlock, ModelSurvey, OpSurvey
from coopsim.run import Script
from tests.conftest import Runner

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
from types import SimpleNamespace
from coopsim.fitting.bench import Bench
from coopsim.fitting.inside import blocks
from coopsim.fitting.remedies import checkpointing
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import ModelBlock, ModelSurvey
from coopsim.run import Script

calls = []
nn.Linear.forward = (lambda plain: lambda self, x: (calls.append(1), plain(self, x))[1])(nn.Linear.forward)
found = []
for chosen, save, wholly, lines in {tries}:
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

    if save:
        for module in model.modules():
            if hasattr(module, "config"):
                module.config.use_cache = False
    before, plain_calls = gradients()
    names = blocks.repeated(model)[0]
    own = all(hasattr(model.get_submodule(n), "gradient_checkpointing") for n in names)
    level = [ModelBlock(n, 1, own, False, False) for n in names]
    survey = ModelSurvey(0, "Net", None, False, False, False, "", "", "", (tuple(level),))
    report = SimpleNamespace(compiled_graphs=0)
    bench = Bench(Trials(Script(()), Runs(print)), SimpleNamespace(model=survey, models=[survey], report=report))
    recompute = checkpointing.these(bench, level, level[:chosen], keep=save, wholly=level[:wholly])
    exec("\\n".join(lines or recompute.lines), {{"model": model, "torch": torch}})
    after, calls_after = gradients()
    found.append({{
        "blocks": len(names),
        "own": own,
        "model": str(model),
        "again": calls_after - plain_calls,
        "same": before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before),
    }})
answer(found)
"""
PRODUCTS = ("aten.addmm.default", "aten.mm.default")


Try = tuple[int, tuple[str, ...], int, tuple[str, ...]]


def a_try(blocks: int, save: tuple[str, ...] = (), wholly: int = 0, lines: tuple[str, ...] = ()) -> Try:
    """How many blocks are recomputed, the ops to save, how many keep nothing all the same; lines that do it instead."""
    return blocks, save, wholly, lines


def program(model: str, *tries: Try, cached: bool = False) -> str:
    text = MODELS[model].replace("{cached}", str(cached))
    return PROGRAM.format(model=textwrap.indent(text, "    "), tries=tries)


@pytest.mark.parametrize(
    "model", [name if name == "mlp" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_gradients_are_bit_for_bit_the_same(model: str, on_phantom: Runner) -> None:
    """With two of four blocks recomputed, with all, with all but for products, and so in two of them."""
    tries = a_try(2), a_try(4), a_try(4, PRODUCTS), a_try(4, PRODUCTS, 2)
    two, four, but, mixed = on_phantom(program(model, *tries))
    linear = {"mlp": 2, "transformer": 2, "bert": 6, "t5": 0, "gpt2": 0}[model]  # GPT-2's layers are Conv1D
    for found, count in ((two, 2), (four, 4), (but, 4), (mixed, 4)):
        assert found["blocks"] == 4
        assert found["own"] == (model in ("bert", "gpt2", "t5"))
        assert found["same"]
        assert found["again"] >= count * linear
        assert model == "gpt2" or found["again"] > 0


@pytest.mark.slow
def test_why_a_cache_of_keys_and_values_is_said_to_change_numbers(on_phantom: Runner) -> None:
    """Checkpointing turns it off, and keys and values then lie otherwise in memory."""
    [found] = on_phantom(program("t5", a_try(4), cached=True))
    assert found["same"] is False


def test_what_keeps_products_and_what_does_not() -> None:
    """Two of four blocks recomputed but for products; and all, one of them wholly."""
    ops = (OpSurvey(PRODUCTS[0], 60, 10), OpSurvey("aten.gelu.default", 10, 40))
    level = tuple(ModelBlock(str(i), 60, own=False, cached=False, statistics=False, ops=ops) for i in range(4))
    found = ModelSurvey(
        0, "Net", None, half=False, autocast=False, sharded=False, name="", prefix="", file="", levels=(level,)
    )
    survey: Any = SimpleNamespace(model=found, models=(found,), report=SimpleNamespace(compiled_graphs=0))
    bench = Bench(Trials(Script(()), Runs(lambda _: None)), survey)
    two, mixed = (selective.proposal(bench, count) for count in (2, 5))
    assert two.lines[2].endswith("[torch.ops.aten.addmm.default])")
    assert [line for line in two.lines if " = {" in line] == ["chosen = {*model[:2]}"]
    assert [line for line in mixed.lines if " = {" in line] == ["chosen = {*model[1:4]}", "wholly = {model[0]}"]
    assert mixed.text == "recompute 4 of 4 blocks, in 3 of them keep the results of addmm"
    for remedy in (two, mixed):
        assert remedy.changes.lines == ((0, "model", remedy.lines),)


LOSSES = """
import torch
from coopsim.fitting.remedies.loss import LINES
from torch.nn import functional
plain = functional.cross_entropy
exec("\\n".join(LINES), {"torch": torch})
torch.manual_seed(0)
labels, dense = torch.randint(0, 50, (40,)), torch.rand(40, 50).softmax(1)
labels[3] = labels[7] = -100
images = torch.randint(0, 5, (6, 4, 4))

def both(shape, target, dtype=torch.float32, **options):
    one = torch.randn(shape, dtype=dtype).requires_grad_()
    other = one.detach().clone().requires_grad_()
    a, b = plain(one, target, **options), functional.cross_entropy(other, target, **options)
    name = type(b.grad_fn).__name__
    (3 * a.sum()).backward()
    (3 * b.sum()).backward()
    close = torch.allclose(a, b) and torch.allclose(one.grad, other.grad, atol=1e-7)
    return name, close, torch.equal(one.grad, other.grad)

weight = torch.rand(50)
with torch.no_grad():
    untracked = functional.cross_entropy(torch.ones(4, 50), labels[10:14]).requires_grad
answer([
    both((40, 50), labels), both((40, 50), labels, reduction="sum"), both((40, 50), labels, label_smoothing=0.1),
    both((40, 50), labels.clamp(0), ignore_index=1), both((6, 5, 4, 4), images), both((1, 50), labels[:1]),
    both((40, 50), dense), both((40, 50), labels, weight=weight), both((40, 50), labels, reduction="none"),
    both((40, 50), labels, dtype=torch.float16), untracked,
])
"""


def test_a_loss_in_chunks_is_the_loss(on_phantom: Runner) -> None:
    """To rounding; and where chunks do not apply it is PyTorch's own."""
    *found, untracked = on_phantom(LOSSES)
    in_chunks, ordinary = found[:6], found[6:]
    assert [name for name, *_ in in_chunks] == ["InChunksBackward"] * 6
    assert all(close for _, close, _ in in_chunks)
    assert not any(name == "InChunksBackward" for name, *_ in ordinary)
    assert all(same for *_, same in ordinary)
    assert untracked is False


BATCH_NORM = """
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
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
chosen = {*model}
apply_activation_checkpointing(model, check_fn=lambda module: module in chosen)
answer(all(torch.equal(a, b) for a, b in zip(before, means())))
"""


@pytest.mark.slow
def test_why_batch_normalisation_is_said_to_change_numbers(on_phantom: Runner) -> None:
    assert on_phantom(BATCH_NORM) is False


def test_a_model_inside_a_module_goes_by_its_path(on_phantom: Runner, tmp_path: Path) -> None:
    """As of what a LightningModule calls: lines to paste stand where that is made, and `self` is no name there."""
    (tmp_path / "job.py").write_text(textwrap.dedent("""
        import torch
        from coopsim.fitting.inside.models import Models

        class Job(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(8, 8))

            def training_step(self, x):
                return self.net(x).sum()

        models, job = Models(), Job()
        job.training_step(torch.zeros(2, 8))
        [found] = models.found()
    """), encoding="utf-8")  # fmt: skip
    text = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from job import found; answer(found['name'])"
    assert on_phantom(text) == "job.net"


PASTED = """
import torch
from torch import nn
from coopsim.fitting.changes import Changes
from coopsim.fitting.inside import lines
from coopsim.fitting.inside.models import Models

def identity(name):
    return (f"{name}[0] = torch.nn.Identity()",)

class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)

models = Models()
parts = ((0, "job.net", identity("job.net")), (1, "model", identity("model")))
lines.install(Changes(lines=parts), models)
nets = [nn.Sequential(nn.Linear(8, 8)) for _ in range(2)]
sums = [called(torch.ones(8)).sum().item() for called in (nets[0], Wrapper(nets[1]))]
answer([*sums, *(type(net[0]).__name__ for net in nets)])
"""


def test_lines_without_a_place_are_run_at_the_first_call(on_phantom: Runner) -> None:
    """By the name that they have for the model, which may be what a wrapper without one contains."""
    assert on_phantom(PASTED) == [8.0, 8.0, "Identity", "Identity"]
