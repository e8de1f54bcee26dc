"""`fit --gpu any`: the verdict for every card is what a run on that card says."""

import json
from pathlib import Path
from typing import Any

import pytest

from coopsim.fit import Search, which
from coopsim.fit.trials import MARGIN
from coopsim.phantom import profiles
from coopsim.script import Script, run

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


@pytest.mark.parametrize(("option", "value"), [("--memory", "8GiB"), ("--apply", "1"), ("--executor", "dask://x:1")])
def test_options_for_one_card(coopsim: Any, option: str, value: str) -> None:
    found = coopsim("fit", "--gpu", "any", option, value, "--", "train.py")
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert f"{option} is for one card" in found.err


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
    assert small["remedy"]["peak_device_bytes"] <= card.memory_bytes * (1 - MARGIN)
