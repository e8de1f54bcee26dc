"""coopsim advise: how much memory there is, what is shown of many trials, what would help where none fits."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from coopsim.base.text import human
from coopsim.cards import profiles
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.trace import TraceBuilder, load, save
from coopsim.trace.measure import bytes_at_peak, live_bytes, peak_bytes
from tests.conftest import BERT, ROOT

MIB = 1 << 20


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A step of twelve layers: 12 x 4 MiB of parameters, 12 x 32 MiB of activations that the backward pass reads."""
    b = TraceBuilder()
    weights = [b.storage(4 * MIB, "parameter", alive_at_start=True) for _ in range(12)]
    x = b.storage(MIB, "input", alive_at_start=True)
    kept = [x]
    for w in weights:
        y = b.storage(32 * MIB)
        b.op("aten.mm.default", reads=[kept[-1], w], creates=[y], cost_ns=1000)
        kept.append(y)
    for w in reversed(weights):
        y = kept.pop()
        b.op("aten.mm.default", phase="backward", reads=[kept[-1], y], mutates=[w], cost_ns=2000)
        b.free(y)
    path = tmp_path / "step.parquet"
    save(b.build({"model": "layers"}), path)
    return path


def test_the_card_less_its_context(step: Path, coopsim: Any) -> None:
    card = profiles.get("rtx-3060")
    advice = json.loads(coopsim("advise", step, "--gpu", "rtx-3060", "--json").out)
    assert advice["memory_bytes"] == card.memory_bytes - card.context_mib * MIB
    assert (advice["gpu"], advice["fits"], advice["more_bytes"]) == ("rtx-3060", True, 0)
    text = coopsim("advise", step, "--gpu", "rtx-3060").out
    assert f"{card.title}: 11.75 GiB less 160 MiB of context" in text
    assert text.count("expandable_segments:True ") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--memory", "24"), "--memory '24' has no unit"),
        (("--memory", "80%"), "--memory '80%' is a share"),
        (("--gpu", "rtx-3061"), "did you mean rtx-3060"),
        (("--gpu", "rtx-3060", "--memory", "24GB"), "not allowed with"),
        ((), "give --memory or --gpu"),
    ],
)
def test_how_much_memory(options: tuple[str, ...], says: str, step: Path, coopsim: Any) -> None:
    code, out, err = coopsim("advise", step, *options)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err


def test_a_trace_by_name(coopsim: Any) -> None:
    assert coopsim("advise", "bert-large", "--memory", "24").err.startswith("coopsim: --memory '24' has no unit")
    code, out, err = coopsim("advise", "bert-larg", "--memory", "8GiB")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "did you mean bert-large or bert-large@h100?" in err


def test_too_large_whatever_the_settings(step: Path, coopsim: Any) -> None:
    code, out, _ = coopsim("advise", step, "--memory", "200MB", "--json")
    advice = json.loads(out)
    assert (code, advice["memory_bytes"], advice["cause"], advice["recommended"]) == (3, 200 * 10**6, "size", None)
    assert (advice["verdict"], advice["fits"]) == ("does not fit", False)
    assert advice["more_bytes"] == min(advice["smallest_bytes"], advice["smallest_bytes_expandable"]) - 200 * 10**6
    text = coopsim("advise", step, "--memory", "200MB").out
    assert (
        f"{len(advice['trials']) + 1} settings and 10 versions of PyTorch tried, none fits (--all shows them)" in text
    )
    needs = human(min(advice["smallest_bytes"], advice["smallest_bytes_expandable"]))
    assert text.startswith(f"Does not fit: needs {needs}, has 190.7 MiB; `coopsim live run` would train in that\n")
    best = min((p for p in advice["policies"] if p["outcome"] == "ok"), key=lambda p: p["overhead"])
    assert f"coopsim live run --memory 190MiB --policy {best['policy']} -- python train.py; simulated here\n" in text
    assert "in the way" not in text
    assert "max_split_size_mb" not in text
    assert "expandable_segments:True" in text.partition("would fit in")[2]
    help_ = text.partition("What would help:\n")[2].splitlines()
    assert [line.split("  ")[0] for line in help_[:3]] == ["more memory", "smaller batch", "recomputation"]
    everything = coopsim("advise", step, "--memory", "200MB", "--all").out
    assert everything.count("out of memory  ") == len(advice["trials"]) + 1


@pytest.mark.slow
def test_of_a_rank_live_is_no_remedy(step: Path, coopsim: Any) -> None:
    """It takes no jobs of several ranks; that recomputation helps is said all the same."""
    b = TraceBuilder()
    kept = [b.storage(32 * MIB) for _ in range(4)]
    for y in kept:
        b.op("aten.ones.default", creates=[y], cost_ns=1000)
    b.op("c10d.allreduce_.default", mutates=[kept[0]], cost_ns=1000, peers=8)
    for y in reversed(kept):
        b.op("aten.sum.default", phase="backward", reads=[y], cost_ns=1000)
        b.free(y)
    save(b.build({"model": "a rank"}), step)
    said = coopsim("advise", step, "--memory", "100MiB").out
    assert said.startswith("Does not fit: needs 128 MiB, has 100 MiB\n")
    assert "live run" not in said
    assert "simulated above; live takes no jobs of several ranks, checkpointing does" in said


def test_the_verdict_comes_first(step: Path, coopsim: Any) -> None:
    code, out, _ = coopsim("advise", step, "--gpu", "rtx-3060")
    assert code == 0
    assert out.startswith("Fits: needs ")
    code, out, _ = coopsim("advise", step, "--memory", "100MiB")
    assert code == 3
    assert out.startswith("Does not fit: needs ")
    assert "would train" not in out.splitlines()[0]
    assert "same numbers" not in out


def test_from_which_size_on_recomputation_works(step: Path, coopsim: Any) -> None:
    code, out, _ = coopsim("advise", step, "--memory", "100MiB", "--json")
    policies = json.loads(out)["policies"]
    assert code == 3
    assert {p["policy"] for p in policies} == {"foresight", "thrift", "coop", "dte-oneflow", "dtr-oneflow"}
    for p in policies:
        assert p["outcome"] != "ok"
        assert p["from_bytes"] > 100 * MIB
        assert coopsim("replay", step, "--policy", p["policy"], "--budget", p["from_budget"]).code == 0
    best = min(p["from_bytes"] for p in policies)
    assert f"from {best / MIB:.4g} MiB on, with" in coopsim("advise", step, "--memory", "100MiB").out


def test_a_policy_does_what_a_replay_says(coopsim: Any) -> None:
    """BERT-Large in 30 % of its peak: ten steps, or what a plan costs once there is one."""
    nbytes = 3 * peak_bytes(load(BERT), 512) // 10
    policies = {
        p["policy"]: p for p in json.loads(coopsim("advise", BERT, "--memory", f"{nbytes}B", "--json").out)["policies"]
    }
    for name in ("dtr-oneflow", "coop"):
        row = json.loads(coopsim("replay", BERT, "--policy", name, "--budget", f"{nbytes}B", "--json").out)
        assert policies[name]["steps"] == row["steps"]
        assert (policies[name]["outcome"], policies[name]["overhead"]) == (row["outcome"], row["overhead"])
    assert policies["dtr-oneflow"]["outcome"] == "ok"
    assert policies["dtr-oneflow"]["overhead"] > policies["coop"]["overhead"]
    two, ten = (measure(load(BERT), "foresight", nbytes, options=ReplayOptions(k)) for k in (2, 10))
    planned = (ten["total_cost_ns"] - two["total_cost_ns"]) / (8 * two["base_cost_ns"] / 2)
    assert policies["foresight"]["overhead"] == pytest.approx(planned)
    assert planned < ten["overhead"]


def test_sizes_are_searched_only_where_nothing_fits_or_all_is_asked_for(step: Path, coopsim: Any) -> None:
    few, all_ = (coopsim("advise", step, "--memory", "250MiB", *options).out for options in ((), ("--all",)))
    assert "fits from" not in few
    assert "--all searches from which size on each fits" in few
    assert "fits from: the smallest budget" in all_


def test_a_step_that_cannot_be_repeated(tmp_path: Path, coopsim: Any) -> None:
    """Its input is used up. Its one step is replayed; the allocator's second begins with another input."""
    b = TraceBuilder()
    x, y = b.storage(4 * MIB, "input", alive_at_start=True), b.storage(4 * MIB)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1000)
    b.free(x)
    b.op("aten.neg.default", reads=[y], cost_ns=1000)
    b.free(y)
    save(b.build({"model": "once"}), tmp_path / "once.parquet")
    code, out, err = coopsim("advise", tmp_path / "once.parquet", "--memory", "40MiB", "--json")
    assert code == 0, err
    advice = json.loads(out)
    assert {(p["steps"], p["outcome"], p["overhead"]) for p in advice["policies"]} == {(1, "ok", 1.0)}
    assert advice["floor_bytes"] == 8 * MIB


def test_a_batch_cannot_shrink_the_parameters(step: Path, coopsim: Any) -> None:
    assert "not enough: 48 MiB at the peak" in coopsim("advise", step, "--memory", "40MiB").out
    out = coopsim("advise", step, "--memory", "100MiB").out
    assert "385 MiB of the peak depend on it" in out
    assert "`coopsim fit --gpu CARD -- python train.py`" in out


def test_bytes_at_the_peak_by_role(step: Path, bert: Any) -> None:
    assert bytes_at_peak(load(step)) == {"parameter": 48 * MIB, "input": MIB, "activation": 384 * MIB}
    assert sum(bytes_at_peak(bert).values()) == live_bytes(bert).max()


def test_a_snapshot_says_what_a_trace_would_add(tmp_path: Path, coopsim: Any) -> None:
    events = [
        {"action": "segment_alloc", "addr": 1 << 40, "size": 64 * MIB, "stream": 0, "frames": []},
        {"action": "alloc", "addr": 1 << 40, "size": 64 * MIB, "stream": 0, "frames": []},
        {"action": "oom", "device_free": MIB, "size": 64 * MIB, "stream": 0, "frames": []},
    ]
    block = {
        "address": 1 << 40,
        "size": 64 * MIB,
        "requested_size": 64 * MIB,
        "state": "active_allocated",
        "frames": [],
    }
    segment = {"device": 0, "address": 1 << 40, "total_size": 64 * MIB, "allocated_size": 64 * MIB, "stream": 0}
    segment |= {"active_size": 64 * MIB, "requested_size": 64 * MIB, "segment_type": "large", "blocks": [block]}
    snapshot = {"segments": [segment], "device_traces": [events], "allocator_settings": {}}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(snapshot))
    code, out, err = coopsim("advise", tmp_path / "s.pickle", "--memory", "65MiB")
    assert code == 3, err
    assert out.startswith("Does not fit: has 65 MiB, and needs at least 63 MiB more to pass this request\n")
    assert "more memory    at least 63 MiB more, to pass this request; the history does not say what comes after" in out
    assert "the script     `coopsim fit --gpu CARD -- python train.py` says what all of it needs, and tries" in out
    assert "recomputation  not tried: a snapshot does not say what could be recomputed. Record a trace" in out
    found = json.loads(coopsim("advise", tmp_path / "s.pickle", "--memory", "65MiB", "--json").out)
    assert (found["history_ends_at_failure"], found["more_bytes"]) == (True, 63 * MIB)


def test_free_memory_by_stream(coopsim: Any) -> None:
    """The snapshot's program filled 1 GiB on a side stream once, and then needs it elsewhere."""
    state = json.loads(coopsim("advise", ROOT / "examples" / "snapshot.pickle", "--json").out)["state"]
    one, other = state["streams"]
    assert other["reserved_bytes"] == 1024 * MIB
    assert other["free_bytes"] == state["other_streams_bytes"] == 1016 * MIB
    assert one["free_bytes"] == state["free_bytes"] + state["other_pool_bytes"]
    assert sum(s["reserved_bytes"] for s in state["streams"]) == state["reserved_bytes"]
    text = coopsim("advise", ROOT / "examples" / "snapshot.pickle").out
    assert "; 1 other: 1 GiB reserved, 1016 MiB free; what is free of a stream serves that stream only" in text
