"""What cannot be captured is refused in one line, and nothing is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coopsim.record.capture import CaptureError, CaptureOutOfMemory, Job, capture, target

StepFile = Callable[[str], str]


def refused(target: str, tmp_path: Path, **options) -> str:
    with pytest.raises(CaptureError) as caught:
        capture(Job(target, tmp_path / "out.parquet", **options))
    assert [p.name for p in tmp_path.iterdir() if "out" in p.name] == []
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_unknown_model(tmp_path: Path) -> None:
    assert refused("bert-larg", tmp_path) == (
        "unknown model 'bert-larg'; did you mean bert-large? Your own training step: path/to/file.py:function"
    )


def test_missing_file_and_function(tmp_path: Path, step_file: StepFile) -> None:
    assert refused("nowhere/train.py:step", tmp_path) == "nowhere/train.py: no such file"
    file = step_file("").rpartition(":")[0]
    assert refused(file, tmp_path) == (f"{file}: name the function of one training step too, as in {file}:step")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"card": "h300"}, "unknown card 'h300'; did you mean h"),
        ({"precision": "fp8"}, "unknown precision 'fp8'; it is tf32 or fp32"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'; it is sgd or momentum or adam or adamw"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=message):
        capture(Job("bert-large", tmp_path / "out.parquet", **options))


def test_batch_is_for_models(tmp_path: Path, step_file: StepFile) -> None:
    assert "a file sets its own" in refused(step_file("def step(): ..."), tmp_path, batch=8)


def test_a_real_gpu_computes_as_the_file_says(tmp_path: Path, step_file: StepFile) -> None:
    message = refused(step_file("def step(): ..."), tmp_path, device="cuda", precision="fp32")
    assert message.endswith("leave --precision out")


@pytest.mark.usefixtures("phantom_gpu")
def test_step_that_raises(tmp_path: Path, step_file: StepFile) -> None:
    target = step_file("def step():\n    helper()\n\ndef helper():\n    raise ValueError('bad value\\nmore')\n")
    assert refused(target, tmp_path) == "train.py:5: ValueError: bad value"


@pytest.mark.usefixtures("phantom_gpu")
def test_no_such_function(tmp_path: Path, step_file: StepFile) -> None:
    target = step_file("def steps(): ...")
    assert refused(target, tmp_path) == "train.py has no function 'step'; did you mean steps?"


@pytest.mark.usefixtures("phantom_gpu")
def test_process_that_dies(tmp_path: Path, step_file: StepFile) -> None:
    message = refused(step_file("import os\ndef step():\n    os.abort()\n"), tmp_path)
    assert message == "the capture's process was ended by signal 6 (Fatal Python error: Aborted, at train.py:3)"


@pytest.mark.usefixtures("phantom_gpu")
def test_out_of_memory(tmp_path: Path, step_file: StepFile) -> None:
    target = step_file(
        "import torch\ndef step():\n    return [torch.empty(8 << 30, dtype=torch.uint8, device='cuda') for _ in 'ab']\n"
    )
    with pytest.raises(CaptureOutOfMemory) as caught:
        capture(Job(target, tmp_path / "out.parquet", card="rtx-3060", limit=True))
    assert caught.value.exit_code == 3
    assert str(caught.value) == (
        "out of memory at train.py:3: the NVIDIA GeForce RTX 3060 has 11.75 GiB, of which 160 MiB are the context's; "
        "8.00 GiB were allocated when 8.00 GiB more were asked for; leave the limit out to record it all the same"
    )


@pytest.mark.usefixtures("phantom_gpu")
def test_a_program_s_own_limit_holds(tmp_path: Path, step_file: StepFile) -> None:
    target = step_file(
        "import torch\ntorch.cuda.set_per_process_memory_fraction(0.5)\n"
        "def step():\n    torch.empty(8 << 30, dtype=torch.uint8, device='cuda')\n"
    )
    assert refused(target, tmp_path, card="rtx-3060") == (
        "out of memory at train.py:4: the program allows itself 5.88 GiB (set_per_process_memory_fraction); "
        "0 bytes were allocated when 8.00 GiB more were asked for"
    )


@pytest.mark.parametrize(
    ("named", "label"),
    [("held.py:distilbert", "distilbert"), ("a/b/train.py:step", "train"), ("x.py:more", "more")],
)
def test_a_trace_is_called_by_its_function_or_its_file(named: str, label: str) -> None:
    assert target.label(named) == label
