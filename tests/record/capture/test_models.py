"""The reference models, and those of experiments/models, are the published ones, and train as was chosen."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from coopsim.record.capture import Job, capture, models
from coopsim.trace import load
from tests.conftest import ROOT

#: torchvision 0.29 (ResNets, ResNeXt, Inception V3, Swin-T, DenseNet, ViT, ConvNeXt, EfficientNet, VGG, ShuffleNet,
#: SqueezeNet), timm (Inception V4, MLP-Mixer), the released checkpoint (GPT-2), transformers (SegFormer),
#: milesial/Pytorch-UNet; BERT, ALBERT, DeBERTa, XLM-R, GPT-3, OPT, T5, moe, wav2vec 2.0 and EDSR by their sizes;
#: torch.nn.LSTM with a classifier on two classes.
PUBLISHED = {
    "albert-base": (30000 + 512 + 2) * 128 + 2 * 128 + 129 * 768 + 12 * 768**2 + 13 * 768 + 769 * 128 + 2 * 128 + 30000,
    "bart-base": 50265 * 768
    + 2 * 1026 * 768
    + 6 * (4 * 768**2 + 4 * 768 + 8 * 768**2 + 5 * 768 + 4 * 768)
    + 6 * (8 * 768**2 + 8 * 768 + 8 * 768**2 + 5 * 768 + 6 * 768)
    + 4 * 768,
    "bert-large": 336_226_108,
    "bilstm": 733_184 + 1026,
    "bilstm-fused": 733_184 + 1026,
    "clip-b32": (49408 + 77) * 512
    + 12 * (12 * 512**2 + 13 * 512)
    + 2 * 512
    + 3 * 32**2 * 768
    + (1 + 50) * 768
    + 12 * (12 * 768**2 + 13 * 768)
    + 4 * 768
    + (512 + 768) * 512
    + 1,
    "convnext-t": 28_589_128,
    "deberta-base": (50265 + 1024) * 768 + 2 * 768 + 12 * (14 * 768**2 + 13 * 768) + 768**2 + 3 * 768 + 50265,
    "densenet-121": 7_978_856,
    "edsr": 28 * 64 + (9 * 64 + 1) * (33 * 64 + 4 * 64 + 3),
    "efficientnet-b0": 5_288_548,
    "gpt-2": 124_439_808,
    "gpt3-2.7b": 50257 * 2560 + 2048 * 2560 + 32 * (12 * 2560**2 + 13 * 2560) + 2 * 2560,
    "inception-v3": 27_161_264,
    "llama-1.1b": 2 * 32000 * 2048 + 22 * (2 * 2048**2 + 2 * 2048 * 256 + 3 * 2048 * 5632 + 2 * 2048) + 2048,
    "mixer-b16": 59_880_472,
    "mobilenet-v2": 3_504_872,
    "mobilevit-s": 5_578_632,
    "moe": (8192 + 512) * 512
    + 2 * 512
    + 4 * (4 * 512 + 4 * 512 * 513)
    + 2 * 512 * 8
    + (2 * 8 + 2) * (2 * 512 * 2048 + 2560),
    "inception-v4": 42_679_816,
    "opt-350m": (50272 + 2 * 1024) * 512 + 2050 * 1024 + 24 * (12 * 1024**2 + 13 * 1024),
    "poolformer-s12": 11_915_176,
    "regnet-y": 19_436_338,
    "resnet-152": 60_192_808,
    "resnet-50": 25_557_032,
    "resnext-50": 25_028_904,
    "segformer-b0": 3_752_694,
    "shufflenet-v2": 2_278_604,
    "squeezenet": 1_235_496,
    "swin-t": 28_288_354,
    "t5-base": 32128 * 768
    + 12 * (4 * 768**2 + 2 * 768 * 3072 + 2 * 768)
    + 12 * (8 * 768**2 + 2 * 768 * 3072 + 3 * 768)
    + 2 * (32 * 12 + 768),
    "unet": 31_037_698,
    "vgg-16": 138_365_992,
    "vit-b": 86_567_656,
    "wav2vec2-base": (10 + 2 + (4 * 3 + 2 * 2) * 512) * 512
    + 2 * 512
    + 513 * 768
    + 768
    + 128 * (768 // 16 * 768 + 1)
    + 768
    + 2 * 768
    + 12 * (12 * 768**2 + 13 * 768)
    + 769 * 32,
    "whisper-small": 51865 * 768
    + (80 + 768) * 3 * 768
    + 2 * 768
    + (1500 + 448) * 768
    + 12 * (4 * 768**2 + 3 * 768 + 8 * 768**2 + 5 * 768 + 4 * 768)
    + 12 * (8 * 768**2 + 6 * 768 + 8 * 768**2 + 5 * 768 + 6 * 768)
    + 4 * 768,
    "xlm-r-base": (250002 + 514 + 1) * 768 + 2 * 768 + 12 * (12 * 768**2 + 13 * 768) + 768**2 + 3 * 768 + 250002,
}
BATCHES = {
    "resnet-50": 115,
    "inception-v3": 96,
    "unet": 5,
    "swin-t": 40,
    "bert-large": 16,
    "bilstm": 2048,
    "spos": 256,
    "gpt3-2.7b": 2,
}


def spos_parameters() -> int:
    """Weights of the supernet by hand: of convolutions, for norms have none, and of the classifier."""
    widths = [16, *[64] * 4, *[160] * 4, *[320] * 8, *[640] * 4]
    total = 3 * 9 * 16 + 640 * 1024 + 1024 * 10
    for layer, (before, after) in enumerate(itertools.pairwise(widths)):
        halving = layer in (4, 8)
        kept = before if halving else before // 2
        inner, made = after // 2, after - kept
        for kernel in (3, 5, 7):
            total += kept * inner + inner * kernel**2 + inner * made
        total += kept * 9 + kept * inner + inner * 9 + inner * inner + inner * 9 + inner * made
        total += 4 * (kept * 9 + kept * kept) * halving
    return total


BUILD = """
import gc
import importlib
import pathlib
import sys
from coopsim.record.capture import models
from coopsim.record.observe.roles import Objects
folder = pathlib.Path("{experiments}")
sys.path.insert(0, str(folder))
known = [models.get(name) for name in models.names()]
known += [importlib.import_module(file.stem).MODEL for file in sorted(folder.glob("[a-z]*.py"))]
found = {{}}
for model in known:
    step = model.build(model.setting(batch=2))
    step()
    found[model.name] = sum(p.numel() for p in Objects.now().parameters())
    del step
    gc.collect()
answer(found)
"""


@pytest.mark.slow
def test_parameters_are_the_published(on_phantom) -> None:
    found = on_phantom(BUILD.format(experiments=ROOT / "experiments" / "models"))
    assert found == PUBLISHED | {"spos": spos_parameters()}


def test_what_only_served_experiments_is_no_reference_model() -> None:
    apart = {file.stem.replace("_", "-") for file in (ROOT / "experiments" / "models").glob("[a-z]*.py")}
    assert len(apart) == 28
    assert not apart & set(models.names())


def test_a_step_is_built_at_the_first_call() -> None:
    calls: list[object] = []

    def build(setting: models.Setting) -> Callable[[], object]:
        calls.append(setting.batch)
        return lambda: calls.append("step")

    step = models.Model("m", "", 3, "", build).step
    assert calls == []
    step()
    step()
    assert calls == [3, "step", "step"]


def test_batches_are_the_authors() -> None:
    assert {name: models.get(name).batch for name in BATCHES} == BATCHES


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_choices_are_recorded(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    capture(Job("swin-t", out, batch=2, optimizer="momentum", amp="bf16", attention="sdpa"))
    trace = load(out)
    header = {key: trace.header[key] for key in ("batch", "optimizer", "amp", "attention", "command")}
    assert header == {
        "batch": 2,
        "optimizer": "SGD lr=0.001 momentum=0.9 foreach=False",
        "amp": "bf16",
        "attention": "sdpa",
        "command": "coopsim capture swin-t --batch 2 --optimizer momentum --amp bf16 --attention sdpa",
    }
    assert any("scaled_dot_product" in name for name in trace.name)
    assert "optimizer_state" in trace.role


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_gradients_are_dropped_or_zeroed(tmp_path: Path) -> None:
    """Dropped, as in the committed trace, each step makes them; zeroed, they are there at the start and updated: added
    to, then zeroed.
    """
    made, updated = {}, {}
    capture(Job("bilstm", tmp_path / "t.parquet", batch=2, gradients="zeroed"))
    for how, path in (("dropped", ROOT / "traces" / "bilstm.parquet"), ("zeroed", tmp_path / "t.parquet")):
        trace = load(path)
        assert trace.header.get("gradients", "dropped") == how
        gradients = {s for s, role in enumerate(trace.role) if role == "gradient"}
        made[how] = len(gradients & {s for row in trace.creates for s in row})
        updated[how] = len(gradients & {s for row in trace.mutates for s in row})
    assert made["dropped"] >= 10
    assert updated["zeroed"] == made["dropped"]
    assert made["zeroed"] == 0


def test_defaults() -> None:
    spos, bert = (models.get(name).setting() for name in ("spos", "bert-large"))
    assert spos.header == {
        "batch": 256,
        "optimizer": "SGD lr=0.025 momentum=0.9 foreach=False weight_decay=0.0003",
    }
    assert bert.header == {"batch": 16, "optimizer": "SGD lr=0.001 momentum=0 foreach=False", "attention": "eager"}
    assert models.get("spos").setting(optimizer="adam").header["optimizer"] == "Adam lr=0.001"
