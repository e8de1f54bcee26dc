"""What the host reads of device memory, and what pinned and managed memory take."""

import pytest

from tests.run.command import report_of

pytestmark = pytest.mark.usefixtures("phantom_gpu")
MIB = 1 << 20


def test_a_block_handed_out_again_reads_as_zeros(on_phantom) -> None:
    """What was copied there before is gone, wherever the new block begins and ends."""
    text = """
import torch
def left(old, new):
    address = old.data_ptr()
    del old
    block = new()
    assert block.data_ptr() == address
    return [v for v in block.flatten().tolist() if v]
copied = lambda n, dtype=torch.float32: torch.ones(n, dtype=dtype).cuda()
found = [
    left(copied(2), lambda: torch.empty(2, device="cuda")),
    left(copied(100), lambda: torch.empty(3, 5, dtype=torch.int16, device="cuda")),
    left(copied(5000), lambda: torch.empty(5001, dtype=torch.uint8, device="cuda")),
    left(copied(200_000), lambda: torch.empty(200_000, device="cuda")),
]
whole = copied(4096)
parts = whole[:1024].clone(), whole[1024:]
found.append([whole.cpu().sum().item(), parts[0].cpu().sum().item(), parts[1].cpu().sum().item()])
del whole, parts
torch.cuda.empty_cache()
found.append(torch.empty(1 << 20, device="cuda").cpu().sum().item())
answer(found)
"""
    want = [[], [], [], [], [4096, 1024, 3072], 0]
    assert on_phantom(text) == want
    assert on_phantom(text, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") == want


def test_so_does_a_block_of_the_arena(on_phantom) -> None:
    text = """
import torch
from coopsim.live.arena.library import install
install(1 << 24)
old = torch.ones(100).cuda()
address = old.data_ptr()
del old
new = torch.empty(100, device="cuda")
answer([new.data_ptr() == address, new.cpu().sum().item()])
"""
    assert on_phantom(text) == [True, 0]


def test_what_ops_count_on_the_device_is_zero(on_phantom) -> None:
    """Their counters lay where a copy had left 1.0, which reads as 1065353216."""
    text = """
import torch
def rows(count):
    x = torch.zeros(100, device="cuda")
    old = torch.tensor([1.0, 2.0], device="cuda")
    del old
    out = count(x, x > 0.5)
    return (out[0] if isinstance(out, tuple) else out).shape[0]
answer([rows(f) for f in (
    lambda x, mask: mask.nonzero(),
    lambda x, mask: torch.where(mask),
    lambda x, mask: x[mask],
    lambda x, mask: torch.masked_select(x, mask),
    lambda x, mask: torch.argwhere(mask),
    lambda x, mask: torch.unique(x, return_inverse=True),
    lambda x, mask: torch.unique_consecutive(x),
    lambda x, mask: x.to_sparse().values(),
    lambda x, mask: torch.zeros(int(mask.sum())),
    lambda x, mask: torch.zeros(int(x.max())),
)])
"""
    assert on_phantom(text) == [0] * 10


DETECTION = """
import torch
from torch import nn
from torch.nn import functional as F

body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()).cuda()
scores, deltas, mask_head = nn.Conv2d(16, 3, 1).cuda(), nn.Conv2d(16, 12, 1).cuda(), nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD([*body.parameters(), *scores.parameters(), *deltas.parameters()], lr=0.1)
for _ in range(3):
    images, boxes = torch.rand(2, 3, 64, 64).cuda(), torch.tensor([[1.0, 2.0, 30.0, 40.0], [5.0, 5.0, 9.0, 9.0]]).cuda()
    features = body(images)
    logits, moves = scores(features).flatten(), deltas(features).flatten().view(-1, 4)
    overlap = (moves[:, None] - boxes[None]).abs().sum(-1)
    best, match = overlap.min(1)
    positive, negative = torch.where(best < 0)[0], torch.where(best >= 0)[0]
    chosen = torch.cat([positive[torch.randperm(positive.numel(), device="cuda")[:128]], negative[:128]])
    regression = F.smooth_l1_loss(moves[positive], boxes[match[positive]], reduction="sum")
    objectness = F.binary_cross_entropy_with_logits(logits, (best < 0).float(), reduction="none")
    hard = objectness[objectness > objectness.sort().values[-100].item()]  # online hard examples
    valid = objectness[logits > 0].sum() / max(int((logits > 0).sum()), 1)
    (regression + objectness[chosen].mean() + hard.sum() + valid + mask_head(moves).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_detection_with_hard_examples_and_masked_losses(tmp_path) -> None:
    """As Faster R-CNN's matcher and sampler, OHEM and masked losses look at data: they got billions of rows."""
    (tmp_path / "detect.py").write_text(DETECTION)
    report = report_of("--gpu", "t4", "--", tmp_path / "detect.py")
    assert (report["outcome"], report["steps"], report["ooms"], report["managed_bytes"]) == ("ok", 3, 0, 0)
    assert report["peak_allocated_bytes"] < 64 * MIB


def test_repeat_interleave_counts_lengths_from_the_host_and_no_others(tmp_path) -> None:
    (tmp_path / "lengths.py").write_text(
        "import torch\n"
        "lengths = torch.tensor([3, 4, 5]).cuda()\n"
        "assert torch.repeat_interleave(torch.zeros(3, 7, device='cuda'), lengths, dim=0).shape == (12, 7)\n"
        "assert torch.repeat_interleave(lengths).shape == (12,)\n"
        "unknown = torch.zeros(3, device='cuda').long()\n"
        "assert torch.repeat_interleave(unknown).shape == (3,)\n"
        "assert torch.zeros(2, 3, device='cuda').repeat_interleave(unknown, 1).shape == (2, 3)\n"
        "assert not torch.zeros(1, dtype=torch.bool, device='cuda').all().item()\n"
    )
    assert report_of("--masks", "all", "--", tmp_path / "lengths.py")["outcome"] == "ok"


OFFLOAD = """
import resource
import torch
from torch import nn
size = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
before = size()
with torch.autograd.graph.save_on_cpu(pin_memory=PINNED):
    loss = model(torch.randn(32768, 1024, device="cuda")).mean()
loss.backward()
grown = size() - before
gradients = [torch.empty_like(p, device="cpu", pin_memory=PINNED).copy_(p.grad) for p in model.parameters()]
small = torch.arange(5.0).cuda()
kept = torch.full((9,), 7.0, pin_memory=PINNED)
kept[:5].copy_(small)
mixed = torch.zeros(3000, device="cuda")
mixed[1000:1005] = small.cpu()
back = torch.full((3000,), 7.0, pin_memory=PINNED).copy_(mixed)
answer([grown, sum(g.sum().item() for g in gradients), kept.tolist(), back.sum().item(), back[1000:1006].tolist()])
"""


@pytest.mark.parametrize("pinned", [True, False])
def test_copies_to_the_host_of_what_nobody_knows_take_no_memory(on_phantom, pinned: bool) -> None:
    """2 GiB of activations went to the host. What was copied to the card comes back."""
    grown, gradients, kept, total, part = on_phantom(OFFLOAD.replace("PINNED", str(pinned)))
    assert grown < 200  # MiB
    assert gradients == 0
    assert kept == [0, 1, 2, 3, 4, 7, 7, 7, 7]
    assert (total, part) == (10, [0, 1, 2, 3, 4, 0])


def test_pinned_memory_that_held_data_reads_as_what_was_copied(on_phantom) -> None:
    text = """
import torch
host = torch.full((3, 1 << 20), 5.0, pin_memory=True)
middle = host[1, 7:-9]
middle.copy_(torch.zeros(middle.shape, device="cuda"))
answer([host.is_pinned(), host.sum().item(), middle.sum().item(), host[1, 6].item(), host[1, -9].item()])
"""
    left = 5.0 * (2 * (1 << 20) + 16)
    assert on_phantom(text) == [True, left, 0, 5, 5]


MANAGED = """
import ctypes
import torch
from coopsim.cards import wheel
lib = ctypes.CDLL(f"libcudart.so.{wheel.find().cuda.partition('.')[0]}")
def managed(n):
    p = ctypes.c_void_p()
    assert lib.cudaMallocManaged(ctypes.byref(p), ctypes.c_size_t(n), 1) == 0
    return p
x = torch.zeros(1 << 20, device="cuda")
state = managed(32 << 20)
second = managed(8 << 20)
assert lib.cudaMemPrefetchAsync(state, ctypes.c_size_t(32 << 20), 0, None) == 0
on_host = torch.frombuffer((ctypes.c_char * (32 << 20)).from_address(state.value), dtype=torch.float32)
assert on_host.sum() == 0
on_host[5] = 3.0
on_host[:9].copy_(torch.arange(9.0).cuda())
assert on_host[:9].sum() == 36
kind = ctypes.create_string_buffer(32)
assert lib.cudaPointerGetAttributes(kind, state) == 0 and kind.raw[0] == 3
assert lib.cudaFree(second) == 0 and lib.cudaFree(state) == 0 and lib.cudaFree(state) != 0
"""


def test_managed_memory_is_told_apart(tmp_path) -> None:
    """As paged optimizers of bitsandbytes keep their state: the card's figures are those without it."""
    (tmp_path / "paged.py").write_text(MANAGED)
    paged = report_of("--", tmp_path / "paged.py")
    assert paged["managed_bytes"] == 40 * MIB
    assert paged["peak_device_bytes"] == paged["context_bytes"] + 22 * MIB  # one segment of 20 MiB, one of 2 MiB
