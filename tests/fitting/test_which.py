"""`fit --gpu any`: the verdict for every card is what a run on that card says."""

import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.cards import profiles
from coopsim.fitting import Search
from coopsim.fitting.changes import Changes
from coopsim.fitting.figures import HEADROOM
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching import which
from coopsim.run import Script, run

SCRIPT = """\
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randn(4096, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
#: It needs some 7 GiB; with micro-batches or checkpointing less.
LARGE = (
    SCRIPT.replace("range(4)", "range(24)")
    .replace("4096", "131072")
    .replace("torch.nn.Linear(512, 512)", "torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU())")
)


@pytest.mark.parametrize(("option", "value"), [("--memory", "8GiB"), ("--apply", "1")])
def test_options_for_one_card(coopsim: Any, option: str, value: str) -> None:
    found = coopsim("fit", "--gpu", "any", option, value, "--", "train.py")
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert f"{option} is for one card" in found.err


class Searched:
    """Stands for Search: a script that needs 20 GiB, with a remedy that takes 10 where there is as much as that."""

    interrupted_at = ""
    hangs = False

    def __init__(self, script: Script, **_: Any) -> None:
        self.script, self.card, self.stopped = script, profiles.get(script.card), threading.Event()

    def look(self) -> Any:
        if self.card.name == self.interrupted_at:
            raise KeyboardInterrupt
        if self.hangs:
            if self.card.name == "b200":
                os.kill(os.getpid(), signal.SIGTERM)
            assert self.stopped.wait(20), "it goes on"
        steps = dict.fromkeys(profiles.names(), 1e6)
        products = "tf32" if self.card.tf32_tflops else "fp32"
        said = {"step_ns_by_card": steps, "precision": products}
        return SimpleNamespace(report=SimpleNamespace(outcome="ok"), needs_bytes=20 << 30, **said)

    def stop(self) -> None:
        self.stopped.set()

    def run(self) -> Any:
        remedy = Remedy("kind", "text", (), 10 << 30, 1.5, True, True, Changes(), ())
        return SimpleNamespace(fits=False, remedies=(remedy,) if self.card.memory_bytes > 11 << 30 else ())


def test_verdicts_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(which, "Search", Searched)
    said: list[str] = []
    found = which.EveryCard(Script(("train.py",)), seconds=60, say=said.append).run()
    verdicts = {a.card.name: (a.verdict, a.tried_on) for a in found.answers}
    assert verdicts["a100-40gb"] == (which.FITS, "")
    assert verdicts["rtx-3060"] == (which.REMEDY, "rtx-3060")
    assert verdicts["rtx-4060-ti-16gb"] == (which.REMEDY, "rtx-4080")
    assert verdicts["rtx-4060"] == verdicts["gtx-1650"] == (which.NO, "")
    assert "fits 15 of 24 cards as it is, the smallest is the l4; next, remedies for 9 cards" in said[-1]
    assert which.EveryCard(Script(("train.py",)), seconds=60, jobs=3).run() == found
    without_time = which.EveryCard(Script(("train.py",)), seconds=0).run()
    assert {a.verdict for a in without_time.answers} == {which.FITS, which.UNKNOWN}
    assert "time ran out" in str(without_time)
    assert "float32 products in tf32; fp32, on cards without TF32" in str(without_time)


def test_an_interrupt_shows_what_is_known(coopsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(which, "Search", Searched)
    monkeypatch.setattr(Searched, "interrupted_at", "l40s")
    found = coopsim("fit", "--gpu", "any", "--json", "--", "train.py")
    assert found.code == 130
    answer = json.loads(found.out)
    assert answer["notes"] == ["interrupted: not everything was tried"]
    assert [row["card"] for row in answer["cards"]] == ["a100-40gb", "h100-80gb", "a100-80gb", "h200", "b200"]
    monkeypatch.setattr(Searched, "interrupted_at", "b200")
    found = coopsim("fit", "--gpu", "any", "--", "train.py")
    assert (found.code, found.out) == (130, "")
    assert "before the first run has ended: nothing is known" in found.err


def test_an_interrupt_ends_runs_at_the_same_time(coopsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(which, "Search", Searched)
    monkeypatch.setattr(Searched, "hangs", True)
    assert coopsim("fit", "--gpu", "any", "--jobs", "2", "--", "train.py").code == 130


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_every_card_is_as_a_run_on_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for each architecture, and runs of their own on cards that were not run."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    found = which.EveryCard(Script(("train.py",)), seconds=60).run()
    assert [a.card.memory_bytes for a in found.answers] == sorted(
        p.memory_bytes for p in map(profiles.get, profiles.names())
    )
    assert {a.verdict for a in found.answers} == {which.FITS}
    by_card = {a.card.name: a for a in found.answers}
    for card in ("rtx-3060", "rtx-4060", "a100-40gb", "h100-80gb"):
        alone = Search(Script(("train.py",), card=card)).look()
        assert (by_card[card].needs_bytes, by_card[card].step_ns) == (alone.needs_bytes, alone.step_ns), card
        assert run(Script(("train.py",), card=card, quiet=True)).peak_device_bytes >= alone.needs_bytes
    fastest = sorted(found.answers, key=lambda a: a.step_ns)
    assert [fastest[0].card.name, fastest[-1].card.name] == ["b200", "gtx-1650"]


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_a_remedy_for_a_smaller_card(coopsim: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(LARGE)
    answer = coopsim("fit", "--gpu", "any", "--time", "4m", "--json", "--", "train.py")
    assert answer.code == 0, answer.err
    cards = {row["card"]: row for row in json.loads(answer.out)["cards"]}
    assert cards["a100-80gb"]["verdict"] == "fits"
    small = cards["gtx-1650"]
    assert small["needs_bytes"] > small["memory_bytes"]
    assert small["verdict"] == "with a remedy"
    card = profiles.get("gtx-1650")
    assert small["remedy"]["peak_device_bytes"] <= card.memory_bytes * (1 - HEADROOM)
