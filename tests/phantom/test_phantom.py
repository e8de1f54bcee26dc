"""The phantom GPU: what it says of itself, its memory, and what happens where it cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim import phantom
from coopsim.cards import profiles, wheel
from coopsim.phantom import build

GIB = 2**30


def test_profiles_are_sane() -> None:
    assert len(profiles.names()) == 24
    for name in profiles.names():
        card = profiles.get(name)
        assert 3 * GIB < card.memory_bytes < 200 * GIB
        assert card.threads_per_sm in (1024, 1536, 2048)
        has_tensor_cores = name != "gtx-1650"
        assert card.fp32_tflops > 0
        assert (card.fp32_tflops <= max(card.tf32_tflops, card.fp16_tflops)) == has_tensor_cores
        assert card.source


def test_unknown_card_has_near_matches() -> None:
    with pytest.raises(phantom.PhantomError, match=r"unknown card 'a100'; did you mean a100-\d0gb or"):
        profiles.get("a100")


def test_nothing_imports_torch_in_the_parent() -> None:
    text = (
        "import sys, coopsim.record.capture, coopsim.phantom; from coopsim.record.capture import models\n"
        "assert models.names() and coopsim.cards.profiles.names()\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


def test_card_as_torch_sees_it(on_phantom) -> None:
    said = on_phantom(
        "import torch; p = torch.cuda.get_device_properties(0)\n"
        "answer([p.name, p.major, p.minor, p.total_memory, p.multi_processor_count, p.max_threads_per_multi_processor,"
        " p.shared_memory_per_block_optin, p.warp_size, torch.cuda.mem_get_info()[0]])",
        card="rtx-3060",
    )
    total = 12037 << 20
    assert said == ["NVIDIA GeForce RTX 3060", 8, 6, total, 28, 1536, 99 << 10, 32, total - (160 << 20)]


def test_property_layouts_of_cuda_12_and_13(on_phantom) -> None:
    """Offsets as the real headers give them (offsetof in driver_types.h of CUDA 12.4 and 13.0)."""
    text = """
import ctypes
from coopsim.cards import wheel
lib = ctypes.CDLL(f"libcudart.so.{wheel.find().cuda.partition('.')[0]}")
found = []
for name, sms, threads, l2, shared, optin in (
    ("cudaGetDeviceProperties_v2", 388, 624, 616, 640, 696), ("cudaGetDeviceProperties", 384, 604, 596, 624, 672)
):
    out = ctypes.create_string_buffer(2048)
    assert getattr(lib, name)(out, 0) == 0
    int_at = lambda at: int.from_bytes(out.raw[at:at + 4], "little")
    long_at = lambda at: int.from_bytes(out.raw[at:at + 8], "little")
    found.append([long_at(288), int_at(360), int_at(364), int_at(sms), int_at(threads), int_at(l2), long_at(shared),
                  long_at(optin)])
answer(found)
"""
    want = [24207 << 20, 8, 9, 128, 1536, 72 << 20, 100 << 10, 99 << 10]
    assert on_phantom(text, card="rtx-4090") == [want, want]


def test_out_of_memory_under_a_cap(on_phantom) -> None:
    text = """
import torch
from coopsim.phantom.control import Control
control, M = Control(), 2**20
blocks = [torch.empty(20 * M, dtype=torch.uint8, device="cuda") for _ in range(10)]
held = control.used_bytes
try:
    torch.empty(50 * M, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    said = str(error).startswith("CUDA out of memory. Tried to allocate 50.00 MiB")
stats = torch.cuda.memory_stats()
del blocks[::2]
control.set_total(1000 * M)
torch.empty(50 * M, dtype=torch.uint8, device="cuda")
answer([said, held, stats["num_ooms"], stats["num_alloc_retries"], torch.cuda.memory_allocated()])
"""
    context = 160 << 20
    said, held, ooms, retries, allocated = on_phantom(text, card="rtx-3060", total_bytes=context + (240 << 20))
    assert said
    assert held == context + (200 << 20)
    assert (ooms, retries) == (1, 1)
    assert allocated == 100 << 20


def test_expandable_segments_join_holes(on_phantom) -> None:
    """90 MiB fit into 100 MiB of scattered holes: physical pages move to where the addresses are contiguous."""
    text = """
import torch
M = 2**20
blocks = [torch.empty(20 * M, dtype=torch.uint8, device="cuda") for _ in range(10)]
del blocks[::2]
torch.empty(90 * M, dtype=torch.uint8, device="cuda")
answer(torch.cuda.memory_stats()["num_ooms"])
"""
    total = (160 << 20) + (200 << 20)
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert on_phantom(text, card="rtx-3060", total_bytes=total, **expandable) == 0


@pytest.mark.parametrize("card", ["l4", "rtx-5090"])
def test_sorting_finds_its_kernels(on_phantom, card: str) -> None:
    """CUB refuses an architecture that it was not compiled for: wheels have no code for 8.9, and take that for 8.6."""
    text = "import torch; answer(len(torch.sort(torch.ones(100_000, device='cuda'))))"
    assert on_phantom(text, card=card) == 2


@pytest.mark.parametrize(
    "card", ["rtx-4060", *(pytest.param(card, marks=pytest.mark.slow) for card in ("rtx-3060", "rtx-5090", "t4"))]
)
def test_t5_and_opt_train(on_phantom, card: str) -> None:
    """Their embeddings' gradients sort (a padding index; more than 3072 indices), which fails with
    cudaErrorInvalidValue if kernels say that they are of an architecture that the wheel was not compiled for.
    """
    text = """
import torch
from transformers import OPTConfig, OPTForCausalLM, T5Config, T5ForConditionalGeneration
small = {"vocab_size": 200, "num_hidden_layers": 1}
for model in (
    OPTForCausalLM(OPTConfig(hidden_size=64, ffn_dim=128, num_attention_heads=4, word_embed_proj_dim=64, **small)),
    T5ForConditionalGeneration(T5Config(vocab_size=200, d_model=64, d_ff=128, num_layers=1, decoder_start_token_id=0)),
):
    model.cuda().train()
    ids = torch.ones(4, 128, dtype=torch.long, device="cuda")
    model(input_ids=ids, attention_mask=ids, labels=ids).loss.backward()
answer(all(p.grad is not None for p in model.parameters()))
"""
    assert on_phantom(text, card=card)


def test_code_compiled_at_run_time(on_phantom) -> None:
    """TorchScript's fuser refuses a run-time compiler that does not say its version."""
    text = """
import torch
unit = torch.jit.CompilationUnit("def fused(x, y):\\n    return torch.sigmoid(x * y + 1) * y\\n")
x = torch.ones(8, 8, device="cuda", requires_grad=True)
for _ in range(4):
    unit.fused(x, x).sum().backward()
answer(torch.gcd(torch.ones(4, dtype=torch.int32, device="cuda"), torch.tensor(2, device="cuda")).shape[0])
"""
    assert on_phantom(text) == 4


def test_results_of_kernels_read_as_zeros_and_copies_stay(on_phantom) -> None:
    text = """
import torch
from coopsim.phantom.control import Control
x = torch.arange(1, 4097).cuda()
back = x.cpu().tolist() == list(range(1, 4097))
Control().clear(x.data_ptr() + 8, 4096 * 8 - 16)
answer([back, x.sum().item(), x.cpu().tolist()[:2], x.cpu().tolist()[-2:], int((x.cpu() != 0).sum())])
"""
    assert on_phantom(text) == [True, 0, [1, 0], [0, 4096], 2]


@pytest.mark.usefixtures("phantom_gpu")
def test_libraries_are_cached_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build.libraries()
    monkeypatch.setattr(build._Build, "run", lambda _: pytest.fail("compiled again"))
    assert build.libraries() == folder
    assert (folder / "libcuda.so.1").exists()
    assert (folder / "libcuda.so").resolve() == folder / "libcuda.so.1"
    assert not (folder / "source").exists()


@pytest.mark.usefixtures("phantom_gpu")
def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(phantom.PhantomError, match=r"no C compiler \(no-such-compiler\); install one"):
        phantom.environment("t4")


@pytest.mark.usefixtures("phantom_gpu")
def test_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    with pytest.raises(phantom.PhantomError, match="cannot compile"):
        phantom.environment("t4")
    assert list((tmp_path / "coopsim").iterdir()) == []


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, r"torch is not installed; .* coopsim setup-torch"),
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", r"torch 2\.13\.0\+cpu is a build without CUDA; "),
    ],
)
def test_no_cuda_torch(version: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text(version or "")

    class Spec:
        origin = str(tmp_path / "torch" / "__init__.py")

    monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda _: Spec if version else None)
    with pytest.raises(phantom.NoCudaTorchError, match=message):
        phantom.environment("t4")


def test_only_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(phantom.PhantomError, match="needs Linux"):
        phantom.environment("t4")


@pytest.mark.usefixtures("phantom_gpu")
def test_preloads_over_real_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel.Wheel, "has_real_libraries", True)
    preload = phantom.environment("t4")["LD_PRELOAD"]
    assert "/libcudart.so." in preload
    assert "/libcudnn.so." in preload


ENDS_AT_ONCE = """
import sys
sys.setswitchinterval(100)  # no thread gets the interpreter before its end, unless it is given away
import torch
x = torch.ones(4, 3, 32, 32, device="cuda")
torch.nn.Conv2d(3, 16, 3).cuda()(x).sum().backward()
"""


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.slow
def test_a_program_may_end_while_autograd_is_at_the_tail_of_its_last_pass() -> None:
    """Of such runs three in four were aborted: Python ends a thread of autograd in the midst of C++."""
    environment = os.environ | phantom.environment("t4")
    command = [sys.executable, "-c", ENDS_AT_ONCE]
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ends = [(run.communicate()[1], run.returncode) for run in runs]
    assert ends == [("", 0)] * 4
