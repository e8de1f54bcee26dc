"""Blocks that several streams use, and ops that are run again among them: on the phantom GPU, by the calls."""

import pytest

from tests.conftest import Runner

TRAIN = """
import torch
import coopsim.live
layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(8)).cuda()
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
x = torch.zeros(4096, 256, device="cuda")
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
guarded, own = [], torch.Tensor.record_stream
def record_stream(tensor, stream):
    guarded.append((stream == side, tensor.untyped_storage().nbytes()))
    return own(tensor, stream)
torch.Tensor.record_stream = record_stream
waits, wait_stream = [], torch.cuda.Stream.wait_stream
def counted(stream, other):
    waits.append((stream == side, other == side))
    return wait_stream(stream, other)
def train(on_side, at_first=0):
    budget = coopsim.live.Budget("60%")
    left = []
    for step in range(6 + at_first):
        guarded.clear()
        waits.clear()
        torch.cuda.Stream.wait_stream = counted
        with budget.step():
            h = x
            for i, layer in enumerate(layers):
                stream = side if i % 2 and on_side and step >= at_first else main
                wait_stream(stream, torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    h = torch.nn.functional.gelu(layer(h))
                wait_stream(main, stream)
            h.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.Stream.wait_stream = wait_stream
        left.append([sum(s for s, _ in guarded), sum(s and not o for s, o in waits), budget.report()["deviated"]])
        if not planned:
            budget.session.known.signatures.clear()
            budget.session.known.last = None
    return {
        "left": left,
        "side": sum(s for s, _ in guarded),
        "bytes": min((n for _, n in guarded), default=0),
        "side_waits": sum(s and not o for s, o in waits),
        "main_waits": sum(o and not s for s, o in waits),
    } | budget.report()
"""


@pytest.mark.parametrize("planned", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_evicted_blocks_and_ops_run_again_wait_for_the_streams_that_matter(child: Runner, *, planned: bool) -> None:
    two, one = child(f"planned = {planned}\n{TRAIN}answer([train(True), train(False)])")
    for report in (two, one):
        assert (report["planned_steps"] >= 3) is planned, report
        assert report["evictions"] > 0, report
        assert report["recomputes" if planned else "offloads"] > 0, report
    assert two["side"] > 0
    assert two["bytes"] > 0  # the block itself, and not an empty one in its place
    assert two["side_waits"] > 0
    assert two["main_waits"] > 0
    assert (one["side"], one["side_waits"], one["main_waits"]) == (0, 0, 0)


CHANGE = "planned = True\n" + TRAIN + "answer(train(True, 4))"


@pytest.mark.parametrize("compiler", [{}, {"CXX": "/nowhere/c++"}], ids=["observed", "in Python"])
def test_steps_that_begin_to_use_another_stream_leave_their_plan(child: Runner, compiler: dict[str, str]) -> None:
    """From then on they are of another signature, with blocks guarded and ops that wait."""
    found = child(CHANGE, **compiler)
    for guards, waits, why in found["left"][:4]:
        assert (guards, waits, why) == (0, 0, "")
    for guards, waits, why in found["left"][4:]:
        assert guards > 0
        assert waits > 0
        assert why.endswith("runs on another stream")


def test_streams_that_nobody_looks_at_show(child: Runner) -> None:
    """The plan of one stream is followed on, until autograd meets tensors that are gone, or there is no room."""
    plant = "from coopsim.live.streams import Streams; Streams.number = lambda self: 0\n"
    try:
        found = child(plant + CHANGE, CXX="/nowhere/c++")["left"]
    except AssertionError:
        return
    assert not any(why.endswith("runs on another stream") for _, _, why in found)
