"""The remedy "offload": save_on_cpu around the fewest blocks that suffice, where live finds nothing."""

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.fitting import apply, figures
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import checkpointing, offload
from coopsim.fitting.remedy import Remedy
from coopsim.fitting.searching.drive import drive
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import ModelBlock, ModelSurvey
from coopsim.run import Script
from tests.conftest import Runner
from tests.fitting.made import too_large

GIB = 1 << 30
MIB = 1 << 20
BLOCKS = tuple(ModelBlock(f"h.{i}", 100, own=False, cached=False, statistics=False) for i in range(6))
MODEL = ModelSurvey(0, "Net", None, False, False, False, "net", "", "", (BLOCKS,))


class Fake:
    """A case of six blocks: the times of a step with so many of them offloaded, where it fits."""

    def __init__(self, times: dict[int, float], host_bytes: int = GIB) -> None:
        self.times, self.host_bytes = times, host_bytes
        self.survey: Any = SimpleNamespace(
            models=(MODEL,), report=SimpleNamespace(compiled_graphs=0), needs_bytes=10 * GIB + 300
        )
        self.trials = Trials(Script(("train.py",), card="rtx-3060"), Runs(lambda _: None))
        self.trials.verify = self.verify  # type: ignore[method-assign]
        self.tried: list[int] = []

    def verify(self, remedy: Remedy, *_: object, **__: object) -> Remedy | None:
        count = len(remedy.changes.on_host)
        self.tried.append(count)
        if count not in self.times:
            return None
        done = replace(remedy, time_ratio=self.times[count], host_bytes=self.host_bytes, verified=True)
        self.trials.found[done.key] = done
        return done


def found(case: Fake) -> list[Remedy]:
    known = replace(case.trials.case(case.survey), limit_bytes=10 * GIB)
    return drive(case.trials, case.survey, offload.propose(known))


def test_the_fewest_blocks_that_suffice() -> None:
    case = Fake({n: 1 + n / 10 for n in (3, 4, 5, 6)})
    [remedy] = found(case)
    assert remedy.changes == Changes(on_host=("h.0", "h.1", "h.2"))
    assert case.trials.found == {"offload": remedy}
    assert remedy.lines[1:] == (
        "chosen = {*net.h[:3]}",
        "apply_activation_checkpointing(net, offload_wrapper, check_fn=lambda module: module in chosen)",
    )
    assert remedy.after_model == remedy.lines
    assert not remedy.same_numbers
    assert "contiguous" in remedy.text


def test_one_more_where_the_fewest_take_longer() -> None:
    """As where the allocator has to give memory back in each step."""
    case = Fake({3: 1.9, 4: 1.4, 5: 1.5, 6: 1.6})
    [remedy] = found(case)
    assert set(case.tried) >= {3, 4}
    assert len(remedy.changes.on_host) == 4
    assert case.trials.found == {"offload": remedy}


def test_nothing_where_no_number_suffices_or_live_fits() -> None:
    """Nor of compiled scripts: Inductor's kernels assert the layout of what was saved."""
    assert not found(Fake({}))
    live, compiled = Fake({6: 1.1}), Fake({6: 1.1})
    live.trials.found["live"] = object()  # type: ignore[assignment]
    compiled.survey.report.compiled_graphs = 1
    for case in (live, compiled):
        assert not found(case)
        assert not case.tried


def test_a_machine_with_less_memory_is_told() -> None:
    case = Fake({6: 1.1}, host_bytes=1 << 60)
    found(case)
    [note] = case.trials.notes
    assert note.startswith("offload takes 1.049e+06 TiB of the host's memory; this machine has ")


def test_its_time_is_the_clocks_and_its_bytes_are_what_is_pinned_beyond_the_scripts_own() -> None:
    ran: Any = SimpleNamespace(plugin={"clock_step_ns": 30, "step_ns": 10}, host={"pinned_bytes": 5 * GIB})
    survey: Any = SimpleNamespace(clock_step_ns=20, report=SimpleNamespace(host={"pinned_bytes": 2 * GIB}))
    changes = Changes(on_host=("h.0",))
    assert figures.ratio(ran, survey, changes) == 1.5
    assert figures.taken(ran, survey, changes) == 3 * GIB
    assert figures.taken(ran, survey, Changes(checkpoint=("h.0",))) == 0
    assert Changes.read(changes.message()) == changes


BITS = """
import torch
from torch import nn
from coopsim.fitting.changes import Changes
from coopsim.fitting.inside import checkpoint

def gradients(offloaded, layout):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(3)])
    model.to(memory_format=layout)
    if offloaded:
        checkpoint.offload(Changes(on_host=("0", "2")), 0, model)
    x = torch.randn(4, 8, 32, 32).to(memory_format=layout)
    model(x).square().mean().backward()
    return [p.grad for p in model.parameters()], str(model)

found = []
for layout in (torch.contiguous_format, torch.channels_last):
    (before, _), (after, text) = gradients(False, layout), gradients(True, layout)
    same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    close = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(before, after, strict=True))
    found.append([same, close, text.count("OffloadWrapper")])
answer(found)
"""


@pytest.mark.slow
def test_other_layouts_run_other_kernels(on_phantom: Runner) -> None:
    """Why the row does not say "same numbers": on the CPU, last bits change in channels_last, and only there."""
    assert on_phantom(BITS) == [[True, True, 2], [False, True, 2]]


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_it_is_found_and_the_patched_script_trains(tmp_path: Path) -> None:
    """With two blocks fewer it does not. Of each block 38 MiB are copied, weights included, there and back."""
    case = too_large(500, tmp_path, "blocks.py")
    [remedy] = case.drive(offload.propose(case))
    n = len(remedy.changes.on_host)
    assert not remedy.stand_in
    assert remedy.peak_device_bytes <= case.trials.limit_bytes
    assert n * 38 * MIB <= remedy.host_bytes <= 3 * n * 38 * MIB
    assert remedy.row()["host_bytes"] == remedy.host_bytes
    copies_ns = 2 * n * 38 * MIB / 25.2  # of the first block less, whose input needs no gradient
    assert (remedy.time_ratio - 1) * case.survey.clock_step_ns == pytest.approx(copies_ns, rel=0.05)
    level = checkpointing.levels(case)[0]
    assert case.verify(offload.proposal(case, level, n - 2)) is None
    done = with_patch(remedy, case.survey)
    script = tmp_path / "blocks.py"
    subprocess.run(["patch", str(script)], input=done.patch, text=True, check=True, capture_output=True)
    patched = replace(done, changes=Changes(), texts=())
    ran = apply(case.trials.script, patched)
    assert ran.outcome == "ok"
    assert ran.peak_device_bytes <= case.trials.script.total_bytes
