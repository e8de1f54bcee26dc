"""The precision of float32 products: what PyTorch asks of cuBLAS and cuDNN, under every setting of a program's."""

import subprocess
from pathlib import Path

import pytest

from coopsim import phantom
from coopsim.phantom import build
from tests.forked import CARD

HERE = Path(__file__).parent

#: What a program may set, old and new settings mixed, and what PyTorch 2.14 then uses: products, convolutions, RNNs.
SETTINGS = {
    "": "fp32 tf32 tf32",
    "B.cuda.matmul.allow_tf32 = True": "tf32 tf32 tf32",
    "torch.set_float32_matmul_precision('high')": "tf32 tf32 tf32",
    "torch.set_float32_matmul_precision('medium')": "tf32 tf32 tf32",
    "torch.set_float32_matmul_precision('highest')": "fp32 tf32 tf32",
    "B.cudnn.allow_tf32 = False": "fp32 fp32 fp32",
    "B.fp32_precision = 'tf32'": "tf32 tf32 tf32",
    "B.fp32_precision = 'ieee'": "fp32 fp32 fp32",
    "B.fp32_precision = 'bf16'": "fp32 fp32 fp32",
    "B.cudnn.fp32_precision = 'tf32'": "tf32 tf32 tf32",
    "B.cudnn.fp32_precision = 'ieee'; B.fp32_precision = 'tf32'": "fp32 fp32 fp32",
    "B.cuda.matmul.fp32_precision = 'tf32'": "tf32 tf32 tf32",
    "B.cuda.matmul.fp32_precision = 'ieee'; B.fp32_precision = 'tf32'": "fp32 tf32 tf32",
    "B.cuda.matmul.fp32_precision = 'none'; B.fp32_precision = 'tf32'": "tf32 tf32 tf32",
    "B.cuda.matmul.allow_tf32 = True; B.cuda.matmul.fp32_precision = 'ieee'": "fp32 tf32 tf32",
    "B.cudnn.conv.fp32_precision = 'ieee'": "fp32 fp32 tf32",
    "B.cudnn.rnn.fp32_precision = 'ieee'": "fp32 tf32 fp32",
    "B.cudnn.rnn.fp32_precision = 'none'": "fp32 tf32 fp32",
    "B.cudnn.conv.fp32_precision = 'none'; B.fp32_precision = 'tf32'": "tf32 tf32 tf32",
    "B.cudnn.enabled = False": "fp32 fp32 -",
    "B.cudnn.enabled = False; B.cuda.matmul.allow_tf32 = True; B.cudnn.allow_tf32 = False": "tf32 tf32 -",
}

ASKED = """
import ctypes, json, os, warnings
import torch
from coopsim.record.observe import precision
from coopsim.record.observe.precision import ProductKind
B, asked = torch.backends, ctypes.CDLL(SHIM)
new = hasattr(torch._C, "_get_fp32_precision_getter")
def cublas(product):
    mode = ctypes.c_int.in_dll(asked, "math_mode")
    mode.value = -1
    product()
    return {0: "fp32", 3: "tf32"}[mode.value & 15]
def convolution():
    image = torch.ones(1, 1, 4, 4, device="cuda")
    if not B.cudnn.enabled:
        return cublas(lambda: torch.conv2d(image, image))
    graph = torch.jit.trace(lambda i: torch.conv2d(i, i), image, check_trace=False).graph
    return "tf32" if list(graph.findNode("aten::_convolution").inputs())[-1].toIValue() else "fp32"
def rnn():
    if not B.cudnn.enabled:
        return "-"
    torch.nn.LSTM(4, 4).cuda()(torch.ones(2, 1, 4, device="cuda"))
    return {0: "tf32", 3: "fp32"}[ctypes.c_int.in_dll(asked, "rnn_math").value]
def levels():
    if not new:
        return B.cuda.matmul.allow_tf32, B.cudnn.allow_tf32
    names = ("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")
    return [torch._C._get_fp32_precision_getter(*name) for name in names]
def look(setting):
    exec(setting)
    before = levels()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = [precision.now(kind) for kind in ProductKind]
    assert levels() == before and ours.pop() == "fp32"
    x = torch.ones(4, 4, device="cuda")
    torchs = [cublas(lambda: x @ x), convolution(), rnn()]
    return ours[: 2 if "-" in torchs else 3], torchs
found = {}
for setting in SETTINGS:
    if "fp32_precision" in setting and not new:
        continue
    reading, writing = os.pipe()
    if not os.fork():  # PyTorch's defaults cannot be set again
        os.write(writing, json.dumps(look(setting)).encode())
        os._exit(0)
    os.close(writing)
    found[setting] = json.load(open(reading))
answer([found, torch.__version__ >= "2.14"])
"""


@pytest.fixture(scope="session")
def shim(phantom_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("asked") / "asked.so"
    subprocess.run([build.compiler(), "-shared", "-fPIC", "-o", file, HERE / "precision_asked.c"], check=True)
    return str(file)


def test_every_setting_is_read_as_pytorch_uses_it(on_phantom, shim: str) -> None:
    """At all levels. Reading changes nothing, and never warns or raises where settings are mixed."""
    text = f"SHIM, SETTINGS = {shim!r}, {list(SETTINGS)!r}\n" + ASKED
    libraries = f"{shim}:{phantom.environment(CARD)['LD_PRELOAD']}"
    found, as_listed = on_phantom(text, LD_PRELOAD=libraries)
    for setting, (ours, torchs) in found.items():
        assert ours == [kind for kind in torchs if kind != "-"], setting
        assert not as_listed or torchs == SETTINGS[setting].split(), setting


SWITCHED_OFF = """
import torch
from coopsim.record.observe import precision
torch.backends.cuda.matmul.allow_tf32 = True
answer([precision.now(kind) for kind in precision.ProductKind])
"""


def test_nvidias_variable_switches_tf32_off(on_phantom) -> None:
    assert set(on_phantom(SWITCHED_OFF, NVIDIA_TF32_OVERRIDE="0")) == {"fp32"}
    assert on_phantom(SWITCHED_OFF, NVIDIA_TF32_OVERRIDE="1") == ["tf32", "tf32", "tf32", "fp32"]


COSTED = """
import torch
from coopsim.record.observe import calls
from coopsim.record.observe.costs import OpCostModel
from coopsim.cards import profiles
from coopsim.cards.prices import Call
A, B = torch.ops.aten, torch.backends
ops = A.mm.default, A.convolution.default, A._cudnn_rnn.default, A._scaled_dot_product_efficient_attention.default
def cost(model, op): return model.nanoseconds(str(op), Call(calls.kind(op), model.precisions.of(op), flops=10**12))
def costs(model): return [cost(model, op) for op in ops]
def read(card, precision=None, products=False):
    B.cuda.matmul.allow_tf32 = products
    model = OpCostModel(profiles.get(card), precision)
    return costs(model), model.precision
answer({
    "default": read("h100-80gb"), "products": read("h100-80gb", products=True),
    "tf32": read("h100-80gb", "tf32"), "fp32": read("h100-80gb", "fp32", True),
    "nothing costed": OpCostModel(profiles.get("h100-80gb"), None).precision, "volta": read("v100-32gb", "tf32"),
    "slower": [name for name in profiles.names() for full, fast in zip(read(name, "fp32")[0], read(name, "tf32")[0])
               if fast > full],
})
"""


def test_costs_follow_the_setting_when_the_op_runs(on_phantom) -> None:
    """On an H100; attention has no setting. A card without TF32 computes in FP32. TF32 is no slower on any card."""
    found = on_phantom(COSTED)
    fp32, tf32 = found["fp32"][0], found["tf32"][0]
    assert fp32[0] > 4 * tf32[0]
    assert fp32[3] == tf32[3]
    assert found["default"] == [[fp32[0], *tf32[1:]], "fp32 (matrix products), tf32 (convolutions, RNNs)"]
    assert found["products"] == [tf32, "tf32"]
    assert found["tf32"] == [tf32, "tf32"]
    assert found["fp32"] == [fp32, "fp32"]
    assert found["nothing costed"] == "tf32"  # as matrix products are set now
    assert found["volta"][1:] == ["fp32"]
    assert found["slower"] == []
