"""Tensors that are filled past the dispatcher train with the same bits inside a budget."""

import pytest

from tests.conftest import Runner

TRAIN = """
import contextlib, copy, ctypes, threading
import numpy as np, torch
import coopsim.live
torch.set_num_threads(1)
N, W, located = 256, 64, torch.UntypedStorage.data_ptr
def fill(address, i):
    a = np.sin(np.arange(N * W, dtype=np.float32) + i)
    ctypes.memmove(address, a.ctypes.data, a.nbytes)
def hidden(out, i): fill(located(out.untyped_storage()), i)  # as a kernel of an extension's own does
def empty(x, i): out = torch.empty_like(x); hidden(out, i); return out
def changed(x, i): out = x.new_empty(N, W); hidden(out, i); return out.add_(1)
def zeros(x, i): out = torch.zeros_like(x); hidden(out, i); return out
def zeros_changed(x, i): out = torch.zeros(N, W); hidden(out, i); return out.mul_(2)
def untyped_storage(x, i): out = torch.zeros_like(x); fill(out.untyped_storage().data_ptr(), i); return out
def storage(x, i): out = torch.ones_like(x); fill(out.storage().data_ptr(), i); return out
def data_ptr(x, i): out = x * 2; fill(out.data_ptr(), i); return out
def numpy(x, i): out = torch.ones_like(x); out.numpy()[:] = np.cos(i); return out
def to_dlpack(x, i):
    out = torch.ones_like(x)
    torch.from_dlpack(torch.utils.dlpack.to_dlpack(out)).mul_(i)
    return out
STAGE = {}
def stage(x, i):
    if i == 0: STAGE["a"] = torch.sin(x)
    return STAGE["a"], torch.cos(torch.exp(STAGE["a"]))
def staged(x, i): a, y = stage(x, i); fill(a.data_ptr(), i); return y
def staged_view(x, i): a, y = stage(x, i); a.numpy()[:] *= 0.9; return y
def staged_alias(x, i):
    if i == 0: STAGE["b"] = torch.from_dlpack(stage(x, i)[0])
    a, y = stage(x, i or 1); STAGE["b"].mul_(0.9); return y
BUFFER = np.zeros((N, W), np.float32)
OURS = torch.from_numpy(BUFFER)
def buffer(x, i): BUFFER[:] = np.sin(np.arange(N * W).reshape(N, W) + i); return torch.cos(torch.exp(OURS))
def given(x, i):
    a = np.full((N, W), i, np.float32); t = torch.as_tensor(a); y = torch.exp(t * 0.1); a *= 2; return torch.cos(y) + t
def conjugate(x, i):
    z = torch.complex(torch.sin(x), torch.cos(x))
    w = torch.bmm(z.conj().view(4, W, W), z.view(4, W, W)).reshape(N, W)
    return (w.real + w.conj().imag.clone()).sin() + z.conj().imag.contiguous()
def copied(x, i): return torch.cos(copy.deepcopy(torch.sin(x))) * x
def sparse(x, i): s = (x > 0).float().to_sparse(); return (s @ x.t()[:, :W]).sin() + s.coalesce().to_dense()
def quantized(x, i): return torch.quantize_per_tensor(x, 0.05, 3, torch.qint8).relu().dequantize()
def elsewhere(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start(); thread.join()
    return found[0]
def thread(x, i): out = torch.cos(x); elsewhere(lambda: out.mul_(0.5)); return out
def thread_view(x, i): out = torch.cos(x); elsewhere(lambda: out.t()[3:9].mul_(0.5)); return out
def thread_late(x, i): a = torch.cos(x); y = torch.exp(a); elsewhere(lambda: a.mul_(0.5)); STAGE["late"] = a; return y
def thread_made(x, i): return elsewhere(lambda: torch.cos(x[:1])) + torch.sin(x)
def thread_stage(x, i): a, y = stage(x, i); elsewhere(lambda: a.mul_(0.9)); return y
def run(way, memory):
    torch.manual_seed(0)
    net = torch.nn.ModuleList(torch.nn.Linear(W, W) for _ in range(6))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    budget, losses = coopsim.live.Budget(memory, device="cpu") if memory else None, []
    for _ in range(4):
        with budget.step() if budget else contextlib.nullcontext():
            h = torch.randn(N, W)
            for i, layer in enumerate(net): h = torch.tanh(layer(h)) * way(h.detach(), i)
            loss = h.square().mean(); loss.backward(); opt.step(); opt.zero_grad(); losses.append(loss.item())
    return losses, [p.detach().numpy().tobytes() for p in net.parameters()], budget and budget.report()
def same(name):
    # 60 %: there each of them is evicted, whatever ops cost on this machine
    one, other = run(globals()[name], None), run(globals()[name], "60%")
    return [one[:2] == other[:2], other[2]["planned_steps"], other[2]["evictions"]]
"""
WAYS = [
    *("empty", "changed", "zeros", "zeros_changed", "untyped_storage", "storage", "data_ptr", "numpy", "to_dlpack"),
    *("staged", "staged_view", "staged_alias", "buffer", "given"),
    *("thread", "thread_view", "thread_late", "thread_made", "thread_stage"),
]
#: What a call has to name when it is run again: what bytes mean, and storages that no strided tensor has.
NAMED = ["conjugate", "copied", "sparse", "quantized"]


def test_what_is_written_past_the_dispatcher_is_not_made_again(child: Runner) -> None:
    found = child(f"{TRAIN}answer({{name: same(name) for name in {WAYS!r}}})")
    for name, (same, planned, evicted) in found.items():
        assert same, name
        assert planned > 0, name
        assert evicted > 0, name


@pytest.mark.parametrize(("plant", "way"), [
    ("from coopsim.live.writers import Writers; Writers.mark = lambda self, recording: None", "empty"),
    ("from coopsim.live.writers import Writers; Writers.used = lambda *_: None", "zeros"),
    ("from coopsim.live.writers import Writers; Writers.ran = lambda *_: None", "buffer"),
    ("from coopsim.live.writers import Writers; Writers.left = lambda *_: None", "thread"),
    ("from coopsim.live.unseen import Unseen; Unseen._locate = lambda self, storage: None", "data_ptr"),
], ids=["mark", "used", "ran", "left", "locate"])  # fmt: skip
def test_writers_that_are_not_noticed_show(child: Runner, plant: str, way: str) -> None:
    assert not child(f"{plant}\n{TRAIN}answer(same({way!r})[0])")


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_what_runs_again_gets_tensors_that_mean_what_they_meant(child: Runner, compiler: dict[str, str]) -> None:
    """Conjugates, negatives, ops on storages, parts of sparse tensors, quantized ones."""
    found = child(f"{TRAIN}answer({{name: same(name) for name in {NAMED!r}}})", **compiler)
    for name, (same, planned, evicted) in found.items():
        assert same, name
        assert planned > 0, name
        assert evicted > 0, name


REUSED = """
import torch
from coopsim.live.writers import Writers
found = []
for later in ([], ["aten.add.Tensor"]):
    tensor, writers = torch.ones(4), Writers(lambda storage: (1,))
    for name in ["aten.zeros.default", *later]:  # the storage of the second has the address of the first
        writers.made(name, [(tensor.untyped_storage(), name)])
    writers.used([tensor])
    found.append(sorted(writers._written))
answer(found)
"""


def test_an_op_whose_result_lies_where_zeros_have_lain_may_run_again(child: Runner) -> None:
    """Else plans depend on addresses, and keep what they could make again."""
    assert child(REUSED) == [["aten.zeros.default"], []]


ELSEWHERE = """
import torch
import coopsim.live
batch, fixed, counted = torch.zeros(64, 64), torch.tensor(2.0), torch.tensor(1.0)
weight = torch.ones(64, 64, device="cuda", requires_grad=True)
budget = coopsim.live.Budget("1GiB")
with budget.step():
    x = batch.to("cuda")
    batch.add_(1)  # the next one
    h = (x * weight).exp()
    (h * fixed - counted)[torch.arange(8)].sum().backward()
    counted.add_(1)
    torch.zeros(64, 64).copy_(h.detach())
trace = budget.session.known.last.trace
answer([[str(name) for name, peers in zip(trace.name, trace.peers) if peers], "aten.copy_.default" in trace.name])
"""


def test_what_reads_a_buffer_on_the_host_is_not_run_again(child: Runner) -> None:
    """It may be filled with the next batch. A number there is compared. What is copied to such a buffer is needed."""
    never = ["aten._to_copy.default", "aten.sub.Tensor", "aten.index.Tensor", "aten.index_put.default"]
    found, copied = child(ELSEWHERE)
    assert [name for name in found if name in never or name == "aten.mul.Tensor"] == never
    assert copied


KNOWN = """
import torch
import coopsim.live
from coopsim.record.observe import known
budget = coopsim.live.Budget("1GiB")
follows = known.Known(budget.session.ledger)
weight = torch.ones(64, device="cuda", requires_grad=True)
with budget.step():
    places = torch.arange(64, device="cuda")
    follows.write(places, torch.arange(64), 0)
    last = int(known.on_host(places)[-1])
    torch.where(places > 3, weight, 0.0).sum().backward()
trace = budget.session.known.last.trace
answer([last, trace.peers.tolist().count(1), trace.n_ops > 2])
"""


def test_the_phantom_s_own_access_to_known_values_is_none_of_the_program_s(child: Runner) -> None:
    """Else no plan makes positions and masks again, nor what follows from them."""
    assert child(KNOWN) == [63, 0, True]
