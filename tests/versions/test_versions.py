"""What is to work with every version of PyTorch: one test per column of docs/install.md, on what is installed.

`make smoke TORCH=2.11.0` runs them in an environment with another version than the pinned one.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from coopsim.fitting import apply
from coopsim.fitting.remedies import checkpointing
from coopsim.record.observe.tested import TORCH
from tests.conftest import ROOT, Recorder, Runner
from tests.fitting.made import too_large, verified
from tests.live.command import SCRIPT, live

pytestmark = pytest.mark.usefixtures("phantom_gpu")

#: Scripts of the corpus: grouped queries, masks, convolutions, a Trainer, sparse gradients, lengths on the CPU, …
WATCHED = [
    *("compiled_eager", "ctc_speech", "formulas_in_place", "grouped_queries", "hf_mixtral", "hf_trainer_clm_bf16"),
    *("moe_index", "per_sample_gradients", "quantised_training", "unet_amp", "word2vec"),
]
#: Those whose plain peak depends on when Python collects garbage, with this version.
VARIES = {"per_sample_gradients": (2, 15)}


def minor() -> tuple[int, ...]:
    return tuple(map(int, metadata.version("torch").split(".")[:2]))


def corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus", ROOT / "experiments" / "corpus" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_phantom() -> None:
    """Peaks of watched scripts are those of the plain ones, to the byte."""
    module = corpus()
    scripts = {script.name: script for script in module.corpus()}
    watched = [name for name in WATCHED if minor() < VARIES.get(name, (3,))]
    rows = list(module.measure([scripts[name] for name in watched]))
    for row in rows:
        assert row["verdict"] == "ok", row
        assert 0 in (row["difference"], row.get("unanswered")), row
    assert len(rows) == len(watched)


STEP = """
import torch
from torch import nn
model = nn.Sequential(nn.Embedding(1000, 256), *(nn.TransformerEncoderLayer(256, 4, 1024) for _ in range(3))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(1000, (64, 16), device="cuda")

def step():
    optimizer.zero_grad()
    model(tokens).square().mean().backward()
    optimizer.step()
"""


def test_capture(record: Recorder, coopsim, tmp_path: Path) -> None:
    """A trace is recorded, and replays within three quarters of its memory."""
    answer = coopsim("replay", record(STEP), "--policy", "coop", "--budget", "75%", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["outcome"] == "ok"


def test_core() -> None:
    """Replays are those of OneFlow with this version of Numba, compiled as it is known inside."""
    goldens = ROOT / "tests/simulate/policies/oneflow/test_golden.py"
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "not slow", "-p", "no:cacheprovider", str(goldens)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "ordinary means" not in done.stderr + done.stdout


def test_fit(tmp_path: Path) -> None:
    """A remedy is verified, and fits when it is applied."""
    case = too_large(300, tmp_path, "blocks.py", "--batch", "1024")
    assert case.survey.model is not None
    remedy = verified(case, checkpointing.proposal(case, case.survey.model.levels[0], 7))
    assert remedy is not None
    assert remedy.verified
    assert apply(replace(case.trials.script, quiet=True), remedy).outcome == "ok"


def test_live() -> None:
    """A script trains by plan inside a budget."""
    done = live("--gpu", "rtx-3060", "--memory", "90%", "--json", "--", "python", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["steps"]) == ("ok", 6)
    assert found["planned_steps"] >= 1


STORAGE = """
import torch
from coopsim.live.tracked import TrackedStorage
tensor = torch.ones(1)
storage = tensor.untyped_storage()
tracked, pointer = TrackedStorage(storage), storage._weak_ref()
del storage
before = tracked.ref() is not None
del tensor
answer([before, tracked.ref() is not None])
"""


def test_storages_end(on_phantom: Runner) -> None:
    """A storage is gone for live once it is, though others, as the recorder, have weak pointers to it."""
    assert on_phantom(STORAGE) == [True, False]


def test_compiled() -> None:
    """Inductor compiles a script that is watched, which trains."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--json", "--"]
    script = ROOT / "tests/run/scripts/compiled.py"
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run([*command, str(script), "inductor"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["compiled_graphs"] > 0, found["graph_breaks"]) == ("ok", True, [])


def test_allocator() -> None:
    """The simulated caching allocator answers as this version's own library."""
    version = metadata.version("torch").partition("+")[0]
    command = [
        sys.executable,
        "-m",
        "tests.study.oracle.fuzz",
        "--torch",
        version,
        "--requests",
        "1000",
        "--confs",
        "50",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.splitlines()[-1].split()[0]) > 60_000, done.stderr


def test_ranks() -> None:
    """A rank of DDP over NCCL trains, the others imitated."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--json", "--", "torchrun", "--nproc-per-node", "4"]
    done = subprocess.run([*command, str(ROOT / "tests/run/ranks/scripts/ddp.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["world_size"], found["steps"] > 0) == ("ok", 4, True)


def test_this_version_is_in_the_table() -> None:
    assert ".".join(map(str, minor())) in TORCH
