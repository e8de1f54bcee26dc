"""Files that are written: through links, over files only, whole or not at all; and policies that misbehave."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coopsim.base import files
from coopsim.base.types import CoopsimError
from tests.processes import session, until

REPLAY = ("replay", "synth:chain", "--policy", "coop", "--budget", "80%", "--steps", "1")


@pytest.mark.parametrize("what", ["fifo", "folder", "missing/x", ""])
def test_no_file_to_write(what: str, tmp_path: Path, coopsim: Any) -> None:
    target: Path | str = tmp_path / what if what else ""
    if what == "fifo":
        os.mkfifo(target)
    elif what == "folder":
        (tmp_path / what).mkdir()
    before = sorted(tmp_path.iterdir())
    for command in (REPLAY, ("plan", "synth:chain"), ("sweep", "synth:chain")):
        code, out, err = coopsim(*command, "-o", target)
        assert (code, out, err.count("\n")) == (2, "", 1), (command, err)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "T", "--policy", "coop", "--budget", "80%", "-o", "T"),
        ("sweep", "G.toml", "-o", "link"),
        ("map", "T", "-o", "T"),
        ("report", "synth:chain", "T", "-o", "T"),
        ("export", "S", "--trace", "T", "--perfetto", "T"),
        ("export", "S", "--torch-snapshot", "S"),
        ("import", "torch-snapshot", "S", "-o", "S"),
    ],
)
def test_what_is_read_is_not_written_over(command: tuple[str, ...], tmp_path: Path, coopsim: Any) -> None:
    contents = {"T": b"trace", "S": b"schedule", "G.toml": b"traces = 'synth:chain'"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "link").symlink_to(tmp_path / "G.toml")
    names = {*contents, "link"}
    code, out, err = coopsim(*(tmp_path / word if word in names else word for word in command))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is an input" in err
    assert {name: (tmp_path / name).read_bytes() for name in contents} == contents


def test_written_through_a_link(tmp_path: Path, coopsim: Any) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "s.parquet")
    assert coopsim(*REPLAY, "-o", tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "s.parquet").stat().st_size > 0


def test_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CoopsimError, match=r"x: cannot be written \(No space left on device\)"):  # noqa: SIM117
        with files.replacing(tmp_path / "x"):
            raise OSError(28, "Error writing bytes to file")
    assert list(tmp_path.iterdir()) == []


POLICIES = {
    "raises": ("def f(c, r, b, h):\n    raise ValueError('no')\n", "score=f", "ValueError: no"),
    "exits": ("def f(m, n):\n    raise SystemExit(0)\n", "choose=f", "SystemExit"),
    "asks too much": ("def f(m, n):\n    return [m.score(10**6)]\n", "choose=f", "value 1000000 is not in memory"),
    "wrong choice": ("", "cost='best'", "cost is 'best'; it is"),
    "not a choice": ("", "divisor=99", "divisor is 99; it is"),
    "not a function": ("", "score=3", "score is not a function"),
    "ends": ("import sys\nsys.exit(0)\n", "", "SystemExit: 0"),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_policies_that_misbehave(kind: str, tmp_path: Path, coopsim: Any) -> None:
    text, field, said = POLICIES[kind]
    file = tmp_path / "own.py"
    file.write_text(f"from coopsim.simulate.policies import Policy\n{text}\nP = Policy('p', 's', 's', {field})\n")
    code, out, err = coopsim("replay", "synth:chain", "--policy", f"{file}:P", "--budget", "70%", "--json")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err


def test_what_a_policy_prints_is_not_the_answer(tmp_path: Path, coopsim: Any) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from coopsim.simulate.policies import Policy\nprint('hello')\n"
        "def f(c, r, b, h):\n    print('asked', b)\n    return c / b\nP = Policy('p', 's', 's', score=f)\n"
    )
    code, out, err = coopsim("replay", "synth:chain", "--policy", f"{file}:P", "--budget", "70%", "--json")
    assert code == 0
    assert json.loads(out)["outcome"] == "ok"
    assert "hello" in err
    assert "asked" in err


def test_a_word_for_a_choice() -> None:
    from coopsim.base.types import Cost
    from coopsim.simulate.policies import Policy

    assert Policy("p", "s", "s", cost="own").cost is Cost.OWN  # type: ignore[arg-type]


@pytest.mark.parametrize("journal", [b"garbage\n", b"\xff\xfe\n", b"[]\n", b'{"sweep": 1}\n{"point": 0}\n'])
def test_damaged_journal(journal: bytes, tmp_path: Path, coopsim: Any) -> None:
    (tmp_path / "r.parquet.journal").write_bytes(journal)
    code, out, err = coopsim("sweep", "synth:chain", "--budget", "90%", "-o", tmp_path / "r.parquet")
    assert (code, out, err.splitlines()[-1].endswith("delete it, or choose another -o")) == (2, "", True), err


def test_journal_without_rows_is_nobodys(tmp_path: Path, coopsim: Any) -> None:
    (tmp_path / "r.parquet.journal").write_bytes(b'{"sweep": "other"}\n')
    assert coopsim("sweep", "synth:chain", "--budget", "90%", "-j", "1", "-o", tmp_path / "r.parquet").code == 0


def test_terminated_sweep_leaves_no_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coopsim", "sweep", "synth:chain:400", "--budget", "100%:40%:0.1%", "-j", "2"]
    with subprocess.Popen(
        [*command, "-o", tmp_path / "r.parquet"], stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as sweep:
        journal = tmp_path / "r.parquet.journal"
        assert until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 2, 240)
        sweep.send_signal(signal.SIGTERM)
        assert sweep.wait(60) == 130
        assert until(lambda: not session(sweep.pid), 20)
