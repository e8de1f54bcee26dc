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
def train(on_side):
    budget = coopsim.live.Budget("60%")
    for _ in range(6):
        guarded.clear()
        waits.clear()
        torch.cuda.Stream.wait_stream = counted
        with budget.step():
            h = x
            for i, layer in enumerate(layers):
                stream = side if i % 2 and on_side else main
                wait_stream(stream, torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    h = torch.nn.functional.gelu(layer(h))
                wait_stream(main, stream)
            h.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.Stream.wait_stream = wait_stream
        if not planned:
            budget.session.known.signatures.clear()
            budget.session.known.last = None
    return {
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
        assert report["recomputes"] > 0, report
    assert two["side"] > 0
    assert two["bytes"] > 0  # the block itself, and not an empty one in its place
    assert two["side_waits"] > 0
    assert two["main_waits"] > 0
    assert (one["side"], one["side_waits"], one["main_waits"]) == (0, 0, 0)
