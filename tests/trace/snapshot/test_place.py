"""Which line of a stack a user is shown: theirs, or what autograd ran."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from coopsim.trace import snapshot
from coopsim.trace.snapshot.model import StackFrame, place

CPP = (
    StackFrame("??", 0, "torch::unwind::unwind()"),
    StackFrame("memory_snapshot.cpp", 0, "torch::cuda::(anonymous namespace)::gather_with_cpp()"),
    StackFrame("??", 0, "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)"),
    StackFrame("RegisterCUDA_0.cpp", 0, "at::(anonymous namespace)::wrapper_CUDA_mul_Tensor(at::Tensor const&)"),
    StackFrame("??", 0, "at::_ops::mul_Tensor::call(at::Tensor const&, at::Tensor const&)"),
    StackFrame("??", 0, "at::_ops::mul_Scalar::call(at::Tensor const&, c10::Scalar const&)"),
)
PYTHON = (
    StackFrame("/src/Python-3.11.7/Python/ceval.c", 7352, "do_call_core"),
    StackFrame("/venv/lib/python3.11/site-packages/torch/nn/functional.py", 10, "gelu"),
    StackFrame("/home/me/net.py", 12, "forward"),
    StackFrame("/home/me/train.py", 30, "main"),
)
NODE = (
    StackFrame(
        "Functions.cpp", 0, "torch::autograd::generated::PowBackward0_apply_functional(std::vector<at::Tensor>&&)"
    ),
    StackFrame("??", 0, "torch::autograd::generated::PowBackward0::apply(std::vector<at::Tensor>&&)"),
    StackFrame("??", 0, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
)


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        (PYTHON, "net.py:12 forward"),
        (CPP + PYTHON, "net.py:12 forward"),
        (CPP + NODE, "PowBackward0, mul_Scalar"),
        (CPP[:2] + NODE, "PowBackward0"),
        (CPP + PYTHON[:2] + NODE, "PowBackward0, mul_Scalar"),
        (CPP + NODE + PYTHON, "net.py:12 forward"),  # a function of the user's own that is differentiated anew
        (CPP + PYTHON[:2], "functional.py:10 gelu"),
        (CPP, ""),
        ((), ""),
    ],
)
def test_of_all_kinds(frames: tuple[StackFrame, ...], says: str) -> None:
    assert place(frames) == says


PROGRAM = """
import torch
torch.cuda.memory._record_memory_history()
x = torch.ones(1 << 22, device="cuda", requires_grad=True)
y = x.pow(3).sum()
spare = torch.cuda.mem_get_info()[0]
held = torch.empty(spare - (24 << 20), dtype=torch.uint8, device="cuda")
try:
    y.backward()
except torch.OutOfMemoryError:
    torch.cuda.memory._dump_snapshot({path!r})
answer(torch.cuda.memory.memory_stats()["num_ooms"])
"""


def test_stacks_as_pytorch_records_them(on_phantom: Any, tmp_path: Path, coopsim: Any) -> None:
    """With frames of C++, by default; the backward pass, in a thread of its own, has no others."""
    path = tmp_path / "s.pickle"
    assert on_phantom(PROGRAM.format(path=str(path)), total_bytes=1 << 30) == 1
    raw = pickle.loads(path.read_bytes())  # noqa: S301  (our own)
    if not any(f["name"].startswith("at::") for t in raw["device_traces"] for e in t for f in e.get("frames", ())):
        pytest.skip("this PyTorch cannot name frames of C++ here")
    failed = next(e for e in snapshot.read(path).events if e.action == "oom")
    assert place(failed.frames).startswith("PowBackward0, ")
    out = coopsim("advise", path).out
    assert "at PowBackward0, " in out
    assert "??" not in out
    assert ".cpp" not in out
