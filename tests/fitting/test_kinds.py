"""Remedies beyond checkpointing: each is found, its printed lines are what ran, and it fits when applied."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest

from coopsim.fitting import Search, apply
from coopsim.fitting.batch import Batch
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import checkpointing, loss, microbatches, optimizers, precision, unused
from coopsim.fitting.remedy import COUNTS_BATCHES
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script
from tests.fitting.made import MIB, SCRIPTS, found, too_large, verified

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]


def of_batches(case: Bench) -> None:
    """Micro-batches of a script whose own calls set the batch size."""
    given = case.survey.given
    assert given.wanted is not None
    microbatches.propose(case, Batch((), given.wanted, given))


def needs(*packages: str) -> None:
    for package in packages:
        if util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


TRAINER = ("--output_dir", "out", "--max_steps", "3", "--report_to", "none", "--save_strategy", "no")


@pytest.mark.parametrize(
    ("propose", "memory_mib", "words", "packages", "lines"),
    [
        (
            of_batches,
            900,
            ("trainer.py",),
            ("transformers",),
            ("per_device_train_batch_size=16,", "gradient_accumulation_steps=2,"),
        ),
        (
            of_batches,
            500,
            ("loader.py",),
            (),
            (
                "loader.py --bs 2048",
                "for i, (x, y) in enumerate(loader):",
                "    (loss / 2).backward()",
                "    if (i + 1) % 2 == 0:",
                "        optimizer.step()",
                "        optimizer.zero_grad()",
            ),
        ),
        (of_batches, 500, ("lightning_loop.py",), ("lightning",), ("accumulate_grad_batches=2", "batch_size=2048")),
        (
            of_batches,
            600,
            ("sft.py",),
            ("trl", "datasets"),
            ("per_device_train_batch_size=", "gradient_accumulation_steps="),
        ),
        (optimizers.propose, 430, ("wide.py", "64"), (), ("model.parameters()",)),
        (optimizers.propose, 1150, ("trainer.py",), ("transformers",), ('optim="ada',)),
        (
            precision.propose_weights,
            500,
            ("loader.py",),
            (),
            ("model.to(torch.bfloat16)", "half = ", ".register_forward_pre"),
        ),
        (precision.propose_weights, 900, ("trainer.py",), ("transformers",), ("model.to(torch.bfloat16)",)),
        (
            loss.propose,
            600,
            ("words.py", "2048"),
            ("liger_kernel",),
            ("cross_entropy = liger_cross_entropy",),
        ),
        (loss.propose, 1400, ("causal.py",), ("liger_kernel",), ("_apply_liger_kernel_to_instance(model=model)",)),
    ],
)
def test_a_remedy_is_found_and_its_lines_are_what_ran(
    propose: Callable[[Bench], None],
    memory_mib: int,
    words: tuple[str, ...],
    packages: tuple[str, ...],
    lines: tuple[str, ...],
    tmp_path: Path,
) -> None:
    needs(*packages)
    case = too_large(memory_mib, tmp_path, *words)
    [remedy] = found(case, propose)
    assert remedy.verified
    assert not remedy.stand_in
    assert not remedy.same_numbers
    assert "numbers change" in remedy.text
    assert remedy.peak_device_bytes <= case.trials.limit_bytes
    said = "\n".join(remedy.lines)
    assert all(line in said for line in lines), said
    done = with_patch(remedy, case.survey)
    assert apply(case.trials.script, done).outcome == "ok"
    script = tmp_path / words[0]
    subprocess.run(["patch", str(script)], input=done.patch, text=True, check=True, capture_output=True)
    patched = replace(done, changes=Changes(), texts=())
    assert apply(case.trials.script, patched).peak_device_bytes <= case.trials.script.total_bytes


def test_a_copy_of_the_best_weights_goes_to_the_host(tmp_path: Path) -> None:
    case = too_large(1750, tmp_path, "best.py")
    [remedy] = found(case, unused.propose)
    assert remedy.lines == ("best = {key: value.cpu() for key, value in best.items()}",)
    assert remedy.same_numbers
    assert not remedy.stand_in


IN_TRITON = """
import sys, torch, triton
from triton import language as tl

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

w = torch.nn.Parameter(torch.ones(1 << 20, device="cuda"))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    y = torch.empty_like(w)
    for _ in range(int(sys.argv[1])):
        double[(1 << 10,)](w, y, w.numel(), BLOCK=1024)
    w.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_kernels_in_triton_take_the_time_of_their_bytes(tmp_path: Path) -> None:
    """Each launch reads and writes 4 MiB; an RTX 3060 moves 360 GB/s at most."""
    (tmp_path / "launches.py").write_text(IN_TRITON)
    steps = []
    for launches in ("0", "100"):
        script = Script((str(tmp_path / "launches.py"), launches), card="rtx-3060", quiet=True)
        trials = Trials(script, Runs(lambda _: None))
        steps.append(trials.survey(tmp_path / "requests.npy").step_ns)
    launch_ns = (steps[1] - steps[0]) / 100
    assert 8 * MIB / 360 < launch_ns < 2 * 8 * MIB / 360


def test_options_of_the_command_set_the_batch(tmp_path: Path) -> None:
    """What Hugging Face's parser reads."""
    words = ("trainer.py", *TRAINER, "--per_device_train_batch_size", "32")
    case = too_large(900, tmp_path, *words)
    [remedy] = found(case, of_batches)
    assert remedy.command[-4:] == ("--per_device_train_batch_size", "16", "--gradient_accumulation_steps", "2")
    assert not remedy.stand_in
    assert apply(case.trials.script, remedy).steps == 3


def test_a_loop_that_ends_too_early_for_a_step_is_tried_by_a_stand_in(tmp_path: Path) -> None:
    case = too_large(500, tmp_path, "loader.py", "--few")
    [remedy] = found(case, of_batches)
    assert remedy.stand_in == COUNTS_BATCHES


def test_a_trainer_gets_micro_batches_within_the_first_runs() -> None:
    """Of the rows, only those with the same numbers stand above them."""
    said: list[str] = []
    script = Script((str(SCRIPTS / "trainer.py"),), card="rtx-3060", memory_bytes=900 * MIB)
    found = Search(script, say=said.append, seconds=300).run()
    at = [remedy.kind for remedy in found.remedies].index("micro-batches")
    assert all(remedy.same_numbers for remedy in found.remedies[:at])
    began = [row for row in said if row.endswith("…")]
    assert any("batches of 16" in row for row in began[:6])


def test_arguments_of_the_trainer_come_first(tmp_path: Path) -> None:
    """One run each: the arguments are set where the user makes them, and all blocks are recomputed before fewer are."""
    pytest.importorskip("transformers")
    case = too_large(1150, tmp_path, "trainer.py")
    half = precision.proposal(case)
    assert half is not None
    assert any("bf16=True" in line for line in half.lines)
    whole = checkpointing.by_arguments(case, checkpointing.levels(case)[0])
    assert whole is not None
    assert any("gradient_checkpointing=True" in line for line in whole.lines)
    done = verified(case, whole)
    assert done is not None
    assert not done.stand_in
