"""Synthetic traces: well formed, the shape they promise, the same every time."""

from collections.abc import Callable

import pytest

from coopsim.base.types import Action, CoopsimError, Phase, Role
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace, check
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import MIB, NAMES, chain, holes, make, tree, unet


@pytest.mark.parametrize("weight", [0, 4096])
@pytest.mark.parametrize("net", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_well_formed_and_the_same_every_time(net: Callable[..., Trace], size: int, weight: int) -> None:
    trace = net(size, weight=weight)
    check(trace)
    assert trace.header["cost_source"] == "synthetic"
    assert trace.content_hash == net(size, weight=weight).content_hash
    # Nothing piles up: what is there at the start is there at the end, and nothing else.
    alive = set(range(trace.n_storages)) - set(trace.freed.tolist())
    assert alive == {s for s in range(trace.n_storages) if trace.alive_at_start[s]}
    assert all(trace.becomes[s] == s for s in alive)


@pytest.mark.parametrize("net", NAMES.values(), ids=NAMES)
def test_every_weight_gets_a_gradient_and_an_update(net: Callable[..., Trace]) -> None:
    trace = net(3, weight=4096)
    updates = [o for o in range(trace.n_ops) if trace.phase[o] == Phase.OPTIMIZER]
    updated = [s for o in updates for s in trace.mutates[o]]
    assert sorted(updated) == [s for s, role in enumerate(trace.role) if role == Role.PARAMETER]
    assert all(trace.role[s] == Role.GRADIENT for o in updates for s in trace.reads[o])


@pytest.mark.parametrize(("trace", "forward"), [(chain(7), 7), (tree(3), 15), (unet(3), 14), (holes(5), 11)])
def test_forward_ops(trace: Trace, forward: int) -> None:
    assert trace.phase.count(Phase.FORWARD) == forward


def test_peaks() -> None:
    # Input, 16 results, and in the first backward op two gradients.
    assert peak_bytes(chain(16)) == (1 + 16 + 2) * MIB


def test_holes_costs_the_greedy_more_than_the_window() -> None:
    """On a memory with addresses, one victim at a time moves more bytes and recomputes more than neighbours at once."""
    trace = holes(24)
    lost = {}
    for policy in ("dtr-oneflow", "coop"):
        schedule = replay(trace, policy, peak_bytes(trace, 512) * 7 // 10, steps=2)
        assert schedule.header["outcome"] == "ok"
        assert validate(schedule, trace) == []
        lost[policy] = int(schedule.bytes[schedule.action == Action.EVICT].sum())
    assert lost["dtr-oneflow"] > 1.3 * lost["coop"]


def test_make() -> None:
    assert make("synth:chain:5").content_hash == make("chain:5").content_hash == chain(5).content_hash
    assert [make(f"synth:{name}").label for name in NAMES] == [
        "accumulated-8",
        "chain-16",
        "holes-16",
        "rnn-16",
        "tree-4",
        "unet-4",
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("synth:chian:16", "did you mean chain"),
        ("synth:zzz", "known: accumulated, chain, holes, rnn, tree, unet"),
        ("synth:", "unknown synthetic trace ''"),
        ("synth:chain:0", "from 1 to"),
        ("synth:chain:-3", "from 1 to"),
        ("synth:chain:many", "not 'many'"),
        ("synth:tree:60", "from 1 to 14"),
        ("synth:tree:4:4", "not '4:4'"),
    ],
)
def test_make_refuses(spec: str, message: str) -> None:
    with pytest.raises(CoopsimError, match=message):
        make(spec)
