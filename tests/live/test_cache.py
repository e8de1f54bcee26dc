"""Plans of an earlier start are followed from the first step on, and steps go on while a first plan is made."""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coopsim.base.files import cache_folder
from coopsim.cli import live
from coopsim.cli.parser import build
from coopsim.live import plan_file
from coopsim.live.background import Background
from coopsim.live.schedules import Search
from coopsim.live.signatures import Signature
from coopsim.trace import synth
from tests.conftest import ROOT, Runner
from tests.live.plans import EMPTY

BACKGROUND = """
import time
from coopsim.live.background import Background
from tests.live.compare import compare, plain
answers, held = Background.answers, [0]
def late(self):  # at the beginning of each step: three steps are taken on demand, then the answer is waited for
    held[0] += 1
    end = time.monotonic() + 100
    while held[0] > 5 and self.asked and time.monotonic() < end:
        yield from answers(self)
        time.sleep(0.05)
Background.answers = late
answer(compare("transformer", "60%", background=True))
"""


def test_steps_go_on_while_they_are_planned_and_end_with_the_same_bits(child: Runner) -> None:
    report = child(BACKGROUND)
    assert report["same"]
    assert (report["steps"], report["planned_steps"], report["deviations"]) == (9, 4, 0)
    assert report["evictions"]


def test_what_the_background_does_not_live_to_answer_is_known() -> None:
    background, trace = Background(), synth.chain()
    background._child.kill()
    background._child.wait()
    signature, search = Signature(trace, [], 1), Search(trace, "coop", 1 << 40)
    background.ask(signature, search)
    assert list(background.answers()) == [(signature, search, None)]
    assert not background.asked


TRAIN = """
import hashlib, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1), nn.Tanh()) for _ in range(6)])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    model(torch.randn(512, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with what is compiled, and without plans."""
    folder = tmp_path / "cache" / "coopsim"
    folder.mkdir(parents=True)
    for entry in cache_folder().iterdir() if cache_folder().exists() else ():
        if entry.name != "plans":
            (folder / entry.name).symlink_to(entry)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder / "plans"


@pytest.mark.usefixtures("child")
def test_the_second_start_follows_plans_from_its_first_step(tmp_path: Path, own_cache: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN, encoding="utf-8")

    def start(*words: str) -> tuple[dict[str, Any], str, bool]:
        command = [sys.executable, "-m", "coopsim", "live", "run", *words, "--json", "--", "python", str(script)]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        *notes, bits = done.stderr.splitlines()
        return json.loads(done.stdout), bits, any("earlier start" in line for line in notes)

    first, bits, followed = start("--memory", "70%")
    assert (first["steps"], followed) == (5, False)
    assert first["planned_steps"] < 4
    assert len(list(own_cache.iterdir())) == 1
    second, same, followed = start("--memory", "70%")
    assert (same, followed) == (bits, True)
    assert second["planned_steps"] == second["steps"] == 5
    assert second["deviations"] == 0
    assert second["budget_bytes"] == first["budget_bytes"]


def arguments(*words: str) -> argparse.Namespace:
    return build().parse_args(["live", "run", "--memory", "1GiB", *words, "--", "python", "train.py"])


def test_a_plan_is_kept_for_the_script_as_it_is_and_a_damaged_one_is_made_anew(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("1", encoding="utf-8")
    place = live.own_plan(arguments(), arena=False)["plan"]
    file = Path(place)
    assert file.parent == own_cache
    file.write_bytes(b"damaged")
    assert live.own_plan(arguments(), arena=False) == {"plan": place, "own": True}
    assert capsys.readouterr().err.endswith("planning anew\n")
    places = [live.own_plan(arguments(*words), arena=False)["plan"] for words in ((), ("--policy", "coop"))]
    script.write_text("2", encoding="utf-8")
    places.append(live.own_plan(arguments(), arena=False)["plan"])
    assert places[0] == place
    assert len(set(places)) == 3


def test_an_arena_is_taken_where_steps_were_not_steady_until_the_script_fails_in_it(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live, "no_arena", lambda: "")
    assert own_cache
    found = arguments("--gpu", "h100-80gb", "--memory", "50%")
    kept = live.own_plan(found, arena=False)
    plan_file.save(replace(EMPTY, steady=False), kept["plan"])
    anew = {"arena": True, "memory": f"{EMPTY.budget_bytes}B"}
    assert live.own_plan(found, arena=False) == kept | anew
    plan_file.mark_steady(kept["plan"])
    assert live.own_plan(found, arena=False) == kept


def test_an_own_plan_is_followed_only_where_it_matches(child: Runner, tmp_path: Path) -> None:
    """One for an arena in an arena only; one that is damaged or not there, nowhere; any other file has to match."""
    path = tmp_path / "step.plan"
    plan_file.save(replace(EMPTY, arena=True), path)
    text = f"""
from coopsim.live.errors import LiveError
from coopsim.live.stored import StoredPlans
def limit(path, **how):
    try: return StoredPlans(path, **how).limit(7, share=False)
    except LiveError as why: return str(why).rpartition(": ")[2]
path = {str(path)!r}
found = [limit(path, own=True, arena=True), limit(path, own=True), limit(path + "x", own=True)]
answer([*found, limit(path), limit(path + "x")])
"""
    *own, other, absent = child(text)
    assert own == [EMPTY.budget_bytes, 7, 7]
    assert other.startswith(str(path))
    assert absent == "no such file"


def test_the_cache_is_bounded(own_cache: Path) -> None:
    own_cache.mkdir()
    files = [own_cache / f"{i}.plan" for i in range(70)]
    for i, file in enumerate(files):
        file.write_bytes(b"x")
        os.truncate(file, 1 << 28 if i == 60 else 1)  # sparse
        os.utime(file, (i, i))
    assert plan_file.place(plan_file.Start("1GiB"), ("train.py",), {}, ()) not in files
    assert sorted(own_cache.iterdir()) == sorted(files[61:])
