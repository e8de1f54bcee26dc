"""Wheels for CUDA 12 on the phantom GPU. COOPSIM_CUDA12_PYTHON names a Python with such a torch and coopsim's needs."""

import pytest

from tests.phantom.cuda12 import PYTHON, on_cuda12
from tests.record.observe import accumulation

pytestmark = pytest.mark.skipif(not PYTHON, reason="COOPSIM_CUDA12_PYTHON names no Python with torch for CUDA 12")


def test_card_as_torch_sees_it() -> None:
    """Every field that lies elsewhere than in CUDA 13, among them, and the context out of the free memory."""
    said = on_cuda12(
        "import torch; p = torch.cuda.get_device_properties(0)\n"
        "answer([torch.version.cuda.partition('.')[0], p.name, p.major, p.minor, p.total_memory,"
        " p.multi_processor_count, p.max_threads_per_multi_processor, p.warp_size, p.L2_cache_size,"
        " p.regs_per_multiprocessor, torch.cuda.mem_get_info()[0]])"
    )
    total = 7932 << 20
    title = "NVIDIA GeForce RTX 4060"
    assert said == ["12", title, 8, 9, total, 24, 1536, 32, 24 << 20, 65536, total - (160 << 20)]


def test_temporaries_of_reductions_follow_the_card() -> None:
    """A column sum that is split over as many blocks of 512 threads as the card has room for: 3 on each of its 24
    multiprocessors of 1536 threads. Each block keeps 16 KiB; the semaphores and the result take 512 bytes each.
    """
    text = """
import torch
x = torch.empty(1 << 20, 32, device="cuda")
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
x.sum(0)
answer(torch.cuda.max_memory_allocated() - before)
"""
    assert on_cuda12(text) == 24 * 3 * (16 << 10) + 2 * 512


def test_gradients_are_added_up_as_unwatched() -> None:
    histories = on_cuda12(accumulation.PROGRAM)
    assert set(histories) == set(accumulation.CASES)
    for case, (unwatched, watched, derived) in histories.items():
        assert watched == unwatched, case
        assert derived == unwatched, case


def test_a_training_step() -> None:
    """Convolution, batch norm, embedding with a padding index (it sorts), attention, mixed precision, AdamW."""
    text = """
import torch
from torch import nn
F = nn.functional
layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Embedding(100, 64, padding_idx=1), nn.LSTM(64, 64)]
net = nn.ModuleList(layers).cuda()
optimizer, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler()
for _ in range(2):
    with torch.autocast("cuda", torch.float16):
        image = net[1](net[0](torch.randn(4, 3, 16, 16).cuda()))
        x = net[3](net[2](torch.ones(64, 64, dtype=torch.long).cuda()))[0].view(64, 64, 4, 16)
        loss = image.mean() + F.scaled_dot_product_attention(x, x, x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
stats = torch.cuda.memory_stats()
answer([stats["num_ooms"], stats["reserved_bytes.all.peak"] >= stats["allocated_bytes.all.peak"] > 0])
"""
    assert on_cuda12(text) == [0, True]


def test_expandable_segments() -> None:
    text = """
import torch
M = 2**20
blocks = [torch.empty(20 * M, dtype=torch.uint8, device="cuda") for _ in range(10)]
del blocks[::2]
torch.empty(90 * M, dtype=torch.uint8, device="cuda")
stats = torch.cuda.memory_stats()
answer([stats["num_ooms"], stats["reserved_bytes.all.peak"] // M])
"""
    ooms, reserved = on_cuda12(text, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert ooms == 0
    assert reserved == 300  # the hole is not reused while the card has room: only a full card moves pages
