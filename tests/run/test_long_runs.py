"""Long runs: what the replay of their steps says, against runs of all their steps on the phantom GPU."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.run import Script, run
from tests.run.command import report_of_text
from tests.run.long_runs import EVALUATES, LEAKS, VARYING, lengths

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]
PEAKS = "peak_allocated_bytes", "peak_reserved_bytes"


def a_file(folder: Path, count: int) -> Path:
    path = folder / "lengths.txt"
    path.write_text(lengths(count))
    return path


def replayed(report: dict) -> tuple[int, int]:
    return report["replay"]["allocated"]["max"], report["replay"]["reserved"]["max"]


def test_five_thousand_steps_are_as_the_script_runs_them(tmp_path: Path) -> None:
    """Peaks to the byte, by a run of 60 steps."""
    told = report_of_text(tmp_path, VARYING, "--steps", "60", "--lengths", a_file(tmp_path, 5000))
    ran = report_of_text(tmp_path, VARYING)
    assert told["steps"] == 60
    assert ran["steps"] == told["replay"]["steps"] == 5000
    assert replayed(told) == tuple(ran[key] for key in PEAKS)


def test_with_expandable_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    text = EVALUATES
    told = report_of_text(tmp_path, text, "--steps", "110", "--lengths", a_file(tmp_path, 1000))
    assert told["replay"]["alloc_conf"] == "expandable_segments:True"
    ran = report_of_text(tmp_path, text)
    assert replayed(told) == tuple(ran[key] for key in PEAKS)


def test_evaluations_and_emptied_caches_recur(tmp_path: Path) -> None:
    told = report_of_text(tmp_path, EVALUATES, "--steps", "110", "--lengths", a_file(tmp_path, 1000))
    assert (told["replay"]["evaluates_every"], told["replay"]["empties_every"]) == (25, 10)
    ran = report_of_text(tmp_path, EVALUATES)
    assert replayed(told) == tuple(ran[key] for key in PEAKS)


def test_a_leak_runs_out_of_memory_at_the_step_at_which_it_does(tmp_path: Path) -> None:
    told = report_of_text(tmp_path, LEAKS, "--steps", "20", "--replay-steps", "5000", "--memory", "400MiB")
    ran = report_of_text(tmp_path, LEAKS, "--memory", "400MiB")
    assert ran["outcome"] == "oom"
    assert told["replay"]["runs_out"]["step"] == ran["out_of_memory"]["step"]
    assert told["replay"]["runs_out"]["cause"] == "leak"


def test_recording_steps_changes_no_peak(tmp_path: Path) -> None:
    plain, recorded = (
        report_of_text(tmp_path, EVALUATES, "--steps", "60", *options) for options in ((), ("--replay-steps", "60"))
    )
    assert [plain[key] for key in PEAKS] == [recorded[key] for key in PEAKS] == list(replayed(recorded))


def test_five_thousand_steps_of_bert_large(tmp_path: Path) -> None:
    """By a run of 80 steps."""
    pytest.importorskip("transformers")
    text = (
        "import random, torch\nfrom transformers import BertConfig, BertForMaskedLM\n"
        "sizes = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)\n"
        "net, source = BertForMaskedLM(BertConfig(**sizes)).cuda(), random.Random(7)\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "while True:\n"
        "    x = torch.zeros(4, 8 * source.randrange(2, 33), dtype=torch.long).cuda()\n"
        "    net(input_ids=x, attention_mask=torch.ones_like(x), labels=x).loss.backward()\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    told = report_of_text(tmp_path, text, "--steps", "80", "--lengths", a_file(tmp_path, 5000))
    assert (told["steps"], told["replay"]["steps"]) == (80, 5000)


def test_a_script_is_judged_by_its_long_run(tmp_path: Path) -> None:
    """As `fit` does: 60 steps run, and the outcome is that of the thousand."""
    (tmp_path / "train.py").write_text(EVALUATES)
    command = ("python", str(tmp_path / "train.py"))
    need = 160 << 20  # of the context
    for room in (165, 240):
        of = Script(command, card="rtx-3060", memory_bytes=need + (room << 20), quiet=True)
        judged = run(replace(of, steps=110, lengths=str(a_file(tmp_path, 1000))))
        ran = run(of)
        assert (judged.outcome, judged.replay is None) == (ran.outcome, judged.outcome == "oom" and judged.steps < 110)
        if ran.outcome == "ok":
            assert judged.peak_reserved_bytes == ran.peak_reserved_bytes
    enough = run(replace(of, memory_bytes=1 << 40, steps=110, lengths=str(a_file(tmp_path, 1000))))
    assert enough.replay_needs_bytes is not None
    assert run(replace(of, memory_bytes=enough.replay_needs_bytes)).outcome == "ok"


def test_a_gate_is_held_to_the_replay(tmp_path: Path) -> None:
    """What a leak takes after 5000 steps, not after the 12 that ran."""
    (tmp_path / "train.py").write_text(LEAKS)
    asked = ("phantom", "run", "--gpu", "rtx-3060", "--max-memory", "400MiB", "--steps", "12", "--json")
    codes = []
    for more in ((), ("--replay-steps", "5000")):
        command = [sys.executable, "-m", "coopsim", *asked, *more, "--", "python", str(tmp_path / "train.py")]
        codes.append(subprocess.run(command, capture_output=True, check=False).returncode)
    assert codes == [0, 1]
