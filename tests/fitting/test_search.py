"""Remedies are found, fit when they are applied, and are the cheapest of their kind."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import coopsim
from coopsim.base.files import cache_folder
from coopsim.fitting import Fit, Search, apply, saved
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import checkpointing, compiled, settings
from coopsim.fitting.remedy import KEYS, Remedy
from coopsim.run import Script
from tests.fitting.made import found, surveyed, verified

SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("phantom_gpu")


def script(memory_mib: int, *words: str, card: str = "rtx-3060") -> Script:
    return Script((f"{SCRIPTS / words[0]}", *words[1:]), card=card, memory_bytes=memory_mib * MIB)


def plain(found: Fit) -> Remedy:
    """Checkpointing that keeps nothing of its blocks."""
    return next(r for r in found.remedies if r.key == "checkpointing")


@pytest.fixture(scope="module")
def blocks() -> tuple[Script, Fit, list[str]]:
    """A script that needs 586 MiB, on a card with 500."""
    said: list[str] = []
    it = script(500, "blocks.py", "--batch", "{4096}")
    return it, Search(it, say=said.append).run(), said


def test_a_remedy_is_tried_and_fits_when_applied(tmp_path: Path) -> None:
    it = replace(script(300, "blocks.py", "--batch", "1024"), quiet=True)
    case = surveyed(it, tmp_path)
    assert case.survey.model is not None
    remedy = verified(case, checkpointing.proposal(case, case.survey.model.levels[0], 7))
    assert remedy is not None
    assert remedy.verified
    assert remedy.peak_device_bytes <= 300 * MIB * 0.98
    assert apply(it, remedy).outcome == "ok"


@pytest.mark.slow
def test_the_loss_in_chunks(tmp_path: Path) -> None:
    it = replace(script(600, "words.py", "2048"), quiet=True)
    case = surveyed(it, tmp_path)
    survey = case.survey
    assert survey.logits_bytes == 2048 * 16000 * 4
    [remedy] = found(case, settings.propose_others)
    assert remedy.text.startswith("the loss in chunks")
    assert not remedy.same_numbers
    copy = tmp_path / "words.py"
    copy.write_text((SCRIPTS / "words.py").read_text())
    patch = with_patch(remedy, survey).patch
    subprocess.run(["patch", str(copy)], input=patch, text=True, check=True, capture_output=True)
    patched = replace(it, command=(str(copy), "2048"))
    assert apply(patched, replace(remedy, command=patched.command, changes=Changes())).outcome == "ok"


@pytest.mark.slow
def test_three_kinds_and_all_fit_when_applied(blocks: tuple[Script, Fit, list[str]]) -> None:
    it, found, said = blocks
    assert not found.fits
    assert found.solved
    assert found.needs_bytes > found.memory_bytes == 500 * MIB
    same = {"live with offload", "live", "checkpointing"}
    kinds = list(dict.fromkeys(r.kind for r in found.remedies))
    assert (set(kinds[:3]), kinds[3:]) == (same, ["micro-batches", "weights", "precision"])
    assert all(r.same_numbers == (r.kind in same) for r in found.remedies)
    # The first remedy takes two runs: the script as it is, and with it.
    assert next(line for line in said if line.startswith("[2]") and "…" not in line).startswith("[2] fits")
    for remedy in found.remedies:
        assert remedy.verified
        assert remedy.peak_device_bytes <= 500 * MIB * 0.98
        assert apply(replace(it, quiet=True), remedy).outcome == "ok"
    between = {"live": (1.0, 1.2), "checkpointing": (1.0, 4 / 3), "precision": (0.4, 1.0), "micro-batches": (1.0, 1.2)}
    between |= {"live with offload": (0.99, 1.2), "weights": (0.3, 1.0)}
    for remedy in found.remedies:
        low, high = between[remedy.kind]
        assert low < remedy.time_ratio < high


@pytest.mark.slow
def test_no_fewer_blocks_would_do(blocks: tuple[Script, Fit, list[str]]) -> None:
    it, found, _ = blocks
    remedy = plain(found)
    [n] = [int(line[-3]) for line in remedy.lines if line.startswith("chosen = {*model.blocks[:")]
    texts = tuple((path, text.replace(f"blocks[:{n}]", f"blocks[:{n - 1}]")) for path, text in remedy.texts)
    assert texts != remedy.texts  # what runs, where the place of the lines is certain
    fewer = replace(remedy, texts=texts)
    limited = replace(it, quiet=True, memory_bytes=int(500 * MIB * 0.98))
    assert apply(limited, fewer).outcome == "oom"


@pytest.mark.slow
def test_patches_are_where_the_place_is_certain(blocks: tuple[Script, Fit, list[str]], tmp_path: Path) -> None:
    it, found, _ = blocks
    kinds = {remedy.kind: remedy for remedy in found.remedies}
    recompute, precision, batches = plain(found), kinds["precision"], kinds["micro-batches"]
    assert recompute.patched
    assert precision.patched
    assert not batches.patched
    assert batches.patch == "no patch: how the loop adds up gradients is for you to write"
    copy = tmp_path / "blocks.py"
    copy.write_text((SCRIPTS / "blocks.py").read_text())
    subprocess.run(["patch", str(copy)], input=recompute.patch, text=True, check=True, capture_output=True)
    patched = replace(it, command=(str(copy), "--batch", "4096"), quiet=True)
    unchanged = replace(recompute, command=patched.command, changes=Changes())
    assert apply(patched, unchanged).outcome == "ok"


@pytest.mark.slow
def test_kept_for_later(blocks: tuple[Script, Fit, list[str]], cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    it, found, _ = blocks
    assert saved.load(it) is None
    saved.save(it, found.remedies)
    assert saved.load(it) == found.remedies
    assert saved.load(replace(it, memory_bytes=1)) is None
    monkeypatch.setattr(saved, "versions", lambda: ("another",))
    assert saved.load(it) is None


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of its own, with the phantom GPU's libraries in it."""
    libraries = cache_folder()
    (tmp_path / "coopsim").mkdir()
    for folder in libraries.glob("phantom-*"):
        (tmp_path / "coopsim" / folder.name).symlink_to(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def fit(*options: object) -> tuple[int, str, str]:
    """Call the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "coopsim", "fit", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "memory", "text", "line", "same"),
    [
        (64, "480MiB", "a fused optimizer", "torch.optim.Adam(model.parameters(), fused=True)", False),
        (8192, "880MiB", "zero_grad(set_to_none=True)", "optimizer.zero_grad(set_to_none=True)", True),
    ],
)
def test_settings_of_the_program(batch: int, memory: str, text: str, line: str, same: bool, cache: None) -> None:
    options = ["--gpu", "rtx-3060", "--memory", memory]
    code, out, err = fit(*options, "--json", "--jobs", 2, "--", SCRIPTS / "wide.py", batch)
    found = json.loads(out)
    assert code == 0, err
    assert set(found) == {
        *("fits", "needs_bytes", "memory_bytes", "masks", "lower_needs_bytes", "full_after_steps", "host", "remedies"),
        "precision",
    }
    assert all(tuple(remedy) == KEYS for remedy in found["remedies"])
    number = [remedy["text"] for remedy in found["remedies"]].index(text)
    assert found["remedies"][number]["lines"] == [line]
    assert found["remedies"][number]["same_numbers"] is same
    code, out, _ = fit(*options, "--patch", number + 1, "--", SCRIPTS / "wide.py", batch)
    assert code == 0
    assert next(row for row in out.splitlines() if row.startswith(("+ ", "+o"))).endswith(line)


@pytest.mark.slow
def test_nothing_does() -> None:
    found = Search(script(170, "blocks.py", "--batch", "{4096}")).run()
    assert not found.solved
    assert found.remedies == ()
    assert "Nothing that was tried makes it fit" in str(found)


@pytest.mark.slow
def test_a_program_that_fits_says_the_room_and_a_larger_batch() -> None:
    code, out, _ = fit("--gpu", "rtx-3060", "--memory", "700MiB", "--", SCRIPTS / "blocks.py", "--batch", "{}")
    assert code == 0
    first, second, *host = out.splitlines()
    assert host[0] == ""
    assert [row.split()[0] for row in host[1:]] == ["host"]
    assert first.startswith("Fits: needs 586 MiB, the NVIDIA GeForce RTX 3060 has 700 MiB. Room: 114 MiB")
    assert int(second.split()[2]) > 4096
    assert second.endswith("does not")


@pytest.mark.slow
def test_a_compiled_script_saves_less(tmp_path: Path) -> None:
    it = replace(script(420, "compiled.py", "4096"), quiet=True)
    case = surveyed(it, tmp_path)
    [remedy] = found(case, compiled.propose)
    assert remedy.changes.activation_memory_budget == 0.9
    assert remedy.peak_device_bytes <= 420 * MIB * 0.98
    assert 1.0 < remedy.time_ratio < 4 / 3
    assert not remedy.same_numbers
    assert apply(it, remedy).outcome == "ok"
    assert apply(it, replace(remedy, changes=Changes())).outcome == "oom"
    copy = tmp_path / "compiled.py"
    copy.write_text((SCRIPTS / "compiled.py").read_text())
    patch = with_patch(replace(remedy), case.survey).patch
    subprocess.run(["patch", str(copy)], input=patch, text=True, check=True, capture_output=True)
    patched = replace(it, command=(str(copy), "4096"))
    assert apply(patched, replace(remedy, command=patched.command, changes=Changes())).outcome == "ok"


@pytest.mark.slow
def test_from_python() -> None:
    with pytest.raises(coopsim.CoopsimError, match="unknown card"):
        coopsim.fit("train.py", gpu="rtx-306")
    found = coopsim.fit([SCRIPTS / "blocks.py", "--batch", 64], gpu="rtx-3060")
    assert found.fits
    assert str(found).startswith("Fits: needs ")
