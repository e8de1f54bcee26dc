"""Traces of a rank: live bytes are what the allocator served, and collectives are ops that nobody runs again."""

import json
from pathlib import Path

import numpy as np
import pytest

from coopsim import trace
from coopsim.base.types import Action, Role
from coopsim.simulate import timeline
from coopsim.simulate.replay import replay
from coopsim.simulate.timeline import perfetto
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.measure import info, peak_bytes
from tests.run.ranks.conftest import SCRIPTS, Command

WORLD = 8
#: Collectives of a step. DDP: buffers of BatchNorm, a bitmap of what is used, buckets of gradients, the loss. FSDP:
#: layers, the norms of gradients.
COLLECTIVES = {
    "ddp": {"c10d.broadcast_": 2, "c10d.allreduce_": 4},
    "fsdp1": {"c10d._allgather_base_": 8, "c10d._reduce_scatter_base_": 4, "c10d.allreduce_": 1},
    "fsdp2": {"c10d._allgather_base_": 12, "c10d._reduce_scatter_base_": 6, "_c10d_functional.all_reduce": 1},
    "tp": {"c10d._allgather_base_": 8, "c10d._reduce_scatter_base_": 4, "_c10d_functional.all_reduce": 9},
}


def record(script: str, out: Path, phantom_run: Command, *words: object) -> Trace:
    """Of a rank of WORLD."""
    options = ("--gpu", "h100-80gb", "--world", WORLD, "--trace", out, *words)
    answer = phantom_run(*options, "--", "python", SCRIPTS / f"{script}.py")
    assert answer.code == 0, answer.err
    return trace.load(out)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory, phantom_run: Command) -> Trace:
    return record("fsdp2", tmp_path_factory.mktemp("ranks") / "t.parquet", phantom_run)


def check(found: Trace, script: str) -> None:
    """Against PyTorch's own allocator: its statistics, and its history of every free."""
    header = found.header
    assert (header["rank"], header["world_size"]) == (0, WORLD)
    assert peak_bytes(found) + header["workspace_bytes"] == header["peak_requested_bytes"]
    assert header["frees_as_allocator"] == header["frees"] > 0
    assert (header["leaked_storages"], header["lost_storages"]) == (0, 0)
    names = [name.rpartition(".")[0] for name, ranks in zip(found.name, found.peers, strict=True) if ranks]
    assert {name: names.count(name) for name in set(names)} == COLLECTIVES[script]
    assert set(found.peers.tolist()) == ({0, WORLD} if script != "tp" else {0, 2, WORLD // 2})


def test_of_fsdp2(sharded: Trace) -> None:
    check(sharded, "fsdp2")
    layer = 2 * 256 * 1024 + 1024 + 256
    gathers = np.flatnonzero([name.startswith("c10d._allgather") for name in sharded.name])
    assert set(sharded.bytes_moved[gathers].tolist()) == {2 * layer}
    # A ring of 8: 7 steps of 3400 ns, 7/8 of the bytes at 0.8 of NVLink's 450 GB/s; 8400 ns to begin.
    assert set(sharded.cost_ns[gathers].tolist()) == {int(8400 + 7 * 3400 + 7 / 8 * 2 * layer * 1000 / 360_000)}
    own = sum(n for n, r, there in zip(sharded.bytes, sharded.role, sharded.alive_at_start, strict=True)
              if r == Role.PARAMETER and there)  # fmt: skip
    assert own == 6 * layer * 4 // WORLD
    assert sharded.header["parameters"] == 6 * layer // WORLD
    facts = info(sharded)
    assert (facts["collectives"], facts["collective_cost_ns"]) == (19, int(sharded.cost_ns[sharded.peers > 0].sum()))
    # The gathers, the reductions and the norm are on streams of their own.
    other = set(sharded.stream[sharded.peers == 0].tolist())
    assert not set(sharded.stream[gathers].tolist()) & {0}
    assert len(set(sharded.stream[sharded.peers > 0].tolist())) == 3
    assert 0 in other


@pytest.mark.slow
@pytest.mark.parametrize("script", ["ddp", "fsdp1", "tp"])
def test_of_others(script: str, tmp_path: Path, phantom_run: Command) -> None:
    check(record(script, tmp_path / "t.parquet", phantom_run), script)


@pytest.mark.slow
def test_of_another_rank(sharded: Trace, tmp_path: Path, phantom_run: Command) -> None:
    last = record("fsdp2", tmp_path / "t.parquet", phantom_run, "--ranks", WORLD - 1)
    assert last.header["rank"] == WORLD - 1
    assert last.content_hash == sharded.content_hash


@pytest.mark.parametrize("policy", ["coop", "foresight"])
def test_no_collective_runs_again(policy: str, sharded: Trace) -> None:
    whole = replay(sharded, policy, "100%", "counter", steps=3)
    assert whole.header["outcome"] == "ok"
    assert not (whole.action == Action.RECOMPUTE).any()
    tight = replay(sharded, policy, "90%", steps=3)
    assert tight.header["outcome"] == "ok"
    again = tight.op[tight.action == Action.RECOMPUTE]
    assert len(again) > 0
    assert not sharded.peers[again].any()
    assert validate(tight, sharded) == []


def test_collectives_in_time(sharded: Trace, tmp_path: Path) -> None:
    schedule = replay(sharded, "foresight", "110%", steps=1)
    found = timeline.simulate(schedule, sharded, timeline.load_params())
    perfetto.save(found, schedule, sharded, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1}
    slices = [e for e in events if e.get("cat") == "collective"]
    assert len(slices) == 19
    assert round(1000 * sum(e["dur"] for e in slices)) == sharded.cost_ns[sharded.peers > 0].sum()
    assert {tracks[e["tid"]].rpartition(" ")[2] for e in slices} >= {"(collectives)"}
    assert {e["args"]["peers"] for e in slices} == {WORLD}
    # A layer is gathered while another computes.
    busy = found.compute_ns + found.recompute_ns
    assert busy < int(sharded.cost_ns.sum())
