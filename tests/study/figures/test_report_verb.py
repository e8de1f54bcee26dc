"""`coopsim report`: a whole file or none, and one line for what it cannot do."""

from pathlib import Path

import pytest

BAD: list[tuple[list[str], str]] = [
    (["synth:unet:4", "--policy", "copo"], "unknown policy 'copo'; did you mean coop"),
    (["synth:unte:4"], "did you mean"),
    (["absent.parquet"], "absent.parquet: no such file"),
    (["synth:unet:4", "synth:chain:8", "--budget", "0.5"], "has no unit"),
    (["synth:unet:4", "--budget", "100%:30%"], "not FROM:TO:STEP"),
    (["synth:unet:4", "--budget", "lots"], "not an amount of memory"),
    (["synth:unet:4", "--steps", "0"], "not a whole number from 1 to a million"),
    (["synth:unet:4", "--band", "none"], "not a whole number from 1 to a million"),
    (["synth:unet:4", "--band-width", "0%"], "not a percentage"),
    (["synth:unet:4", "--overhead-limit", "0.5"], "overhead_limit: 0.5 is not a number from 1"),
]


@pytest.mark.parametrize(("args", "says"), BAD, ids=lambda a: " ".join(a) if isinstance(a, list) else "")
def test_bad_input(args: list[str], says: str, coopsim, tmp_path: Path) -> None:
    answer = coopsim("report", *args, "-o", tmp_path / "r.html")
    lines = [line for line in answer.err.splitlines() if line.startswith("coopsim")]
    assert (answer.code, answer.out, len(lines)) == (2, "", 1), answer.err
    assert says in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["no/such/r.html", ".", ""])
def test_outputs_that_cannot_be(output: str, coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = coopsim("report", "synth:unet:4", "-o", output)
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
    assert list(tmp_path.iterdir()) == []


def test_the_same_words_make_the_same_bytes(coopsim, tmp_path: Path) -> None:
    policies = ["--policy", "coop,lru:divisor=nothing", "--budget", "90%:50%:20%", "--steps", "2"]
    words = ["synth:unet:4", "synth:chain:16", *policies]
    for k in (1, 2):
        answer = coopsim("report", *words, "-o", tmp_path / f"{k}.html")
        assert (answer.code, answer.out) == (0, ""), answer.err
        assert answer.err.splitlines()[-1] == f"wrote {tmp_path / f'{k}.html'}: 60 replays"
    one, two = ((tmp_path / f"{k}.html").read_bytes() for k in (1, 2))
    assert one == two
    assert len(list(tmp_path.iterdir())) == 2
