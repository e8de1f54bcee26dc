"""Bad input: one line and exit code 2. Ctrl-C: what is known."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coopsim

SCRIPTS = Path(__file__).parent / "scripts"
BAD = {
    ("--", "python", "train.py"): "the following arguments are required: --gpu",
    ("--gpu", "rtx-3060"): "name the command to run after --",
    ("--gpu", "rtx-306", "--", "python", "train.py"): "unknown card 'rtx-306'; did you mean rtx-3060",
    ("--gpu", "rtx-3060", "--memory", "12", "--", "a"): "--memory '12' has no unit",
    ("--gpu", "rtx-3060", "--memory", "100MiB", "--", "a"): "the context alone takes 160 MiB",
    ("--gpu", "rtx-3060", "--jobs", "0", "--", "a"): "'0' is not a whole number",
    ("--gpu", "rtx-3060", "--apply", "1", "--patch", "1", "--", "a"): "not allowed with",
    ("--gpu", "rtx-3060", "--", "python", "train.py", "{}"): "which batch do you want? Write it between the braces",
    ("--gpu", "rtx-3060", "--", "python", "train.py", "{2}", "{4}"): "names more than one batch",
    ("--gpu", "rtx-3060", "--time", "5", "--", "a"): "'5' is not a duration, such as 90s, 5m or 1h",
    ("--gpu", "rtx-3060", "--time", "0s", "--", "a"): "'0s' is not a duration, such as 90s, 5m or 1h",
    ("--gpu", "rtx-3060", "--", "no-such-file.py"): "no-such-file.py: no such file",
    ("--gpu", "rtx-3060", "--", "python", "no-such-file.py"): "no-such-file.py: no such file",
}


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_one_line(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "coopsim", "fit", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert BAD[words] in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("", {}, "name the script to run"),
        ([], {}, "name the script to run"),
        ("train.py '", {}, "No closing quotation"),
        ("no-such-file.py", {}, "no such file"),
        ("train.py", {"jobs": 0}, "at least one run"),
        ("train.py", {"memory": "12"}, "has no unit"),
        ("train.py", {"memory": "100MiB"}, "the context alone takes 160 MiB"),
        ("train.py", {"gpu": "rtx-306"}, "did you mean rtx-3060"),
        ("train.py", {"steps": 0}, "steps 0: at least one step"),
        ("train.py", {"lengths": "no-such-file.txt"}, "no-such-file.txt: No such file"),
    ],
)
@pytest.mark.usefixtures("phantom_gpu")
def test_from_python(script: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(coopsim.CoopsimError, match=message):
        coopsim.fit(script, **{"gpu": "rtx-3060"} | options)


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_it_shows_what_is_known(jobs: str) -> None:
    words = [
        "--gpu",
        "rtx-3060",
        "--memory",
        "500MiB",
        "--jobs",
        jobs,
        "--",
        SCRIPTS / "blocks.py",
        "--batch",
        "{4096}",
    ]
    command = [sys.executable, "-m", "coopsim", "fit", *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    while "recompute 3 of 8 blocks" not in (line := child.stderr.readline()):  # so it fits with 4
        assert line, "it ended before it found anything"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out.startswith("Does not fit: needs 586 MiB")
    assert "recompute 4 of 8 blocks" in out or "recompute 3 of 8 blocks" in out
    assert err.splitlines()[-1] == "coopsim: interrupted"
