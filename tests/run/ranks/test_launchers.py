"""Launchers are understood; what cannot be run gets one line."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from coopsim.base.errors import CaptureError
from coopsim.run.ranks import launcher, world
from tests.run.ranks.conftest import SCRIPTS, Command

FSDP2 = str(SCRIPTS / "fsdp2.py")
LAUNCHERS = {
    "torchrun": ("torchrun", "--nproc-per-node", "8", "--nnodes", "8", "--master-addr", "there"),
    "module": ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"),
    "accelerate": ("accelerate", "launch", "--num_processes", "16", "--num_machines", "2", "--machine_rank", "0"),
    "shell": ("bash", "-c", f"torchrun --nproc-per-node gpu {FSDP2}"),
}
SIZES = {"torchrun": 64, "module": 4, "accelerate": 16, "shell": 8}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAUNCHERS)
def test_understood(name: str, phantom_run: Command) -> None:
    words = LAUNCHERS[name]
    if name == "accelerate":
        if importlib.util.find_spec("accelerate") is None:
            pytest.skip("no accelerate")
        words += ("--main_process_ip", "there", "--main_process_port", "1")
    answer = phantom_run("--json", "--", *words, *((FSDP2,) if name != "shell" else ()))
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert (report["world_size"], report["rank"], report["steps"]) == (SIZES[name], 0, 3)
    assert report["command"][0] == words[0]


@pytest.mark.slow
def test_a_world_in_place_of_the_launchers(
    phantom_run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    answer = phantom_run("--json", "--world", "32", "--", *LAUNCHERS["torchrun"], FSDP2)
    assert json.loads(answer.out)["world_size"] == 32
    assert not list(tmp_path.iterdir())


REFUSED = {
    ("--", "deepspeed", "train.py"): (
        "deepspeed is not understood as a launcher; use torchrun, or name the script and --world N"
    ),
    ("--", "torchrun", "--nnodes", "1:4", "train.py"): "--nnodes 1:4: say one number of machines",
    ("--world", "12", "--", "python", FSDP2): "12 ranks do not fill machines of 8; name a multiple of 8",
    ("--world", "8192", "--", "python", FSDP2): ("a world of 8192 ranks; the phantom GPU stands for 1 to 4096"),
    ("--world", "4", "--ranks", "1,4", "--", "python", FSDP2): "--ranks 1,4: there are ranks 0 to 3",
    ("--world", "4", "--ranks", "first", "--", "python", FSDP2): ("--ranks first: say which, as in 0,7, or all"),
    ("--ranks", "1", "--", "python", "-c", "pass"): (
        "--ranks: -c pass starts no ranks; name a launcher (torchrun), or the script itself with --world N"
    ),
    ("--", "python", "-c", "import os; os.environ['RANK']"): (
        "-c import os; os.environ['RANK']: KeyError: 'RANK'; it is a rank of a job: start it by its launcher "
        "(torchrun), or with --world N"
    ),
    ("--world", "4", "--ranks", "all", "--snapshot", "s", "--", "python", FSDP2): (
        "--snapshot is for one rank; name it, as in --ranks 0"
    ),
    ("--world", "4", "--ranks", "0,3", "--trace", "t", "--", "python", FSDP2): (
        "--trace is for one rank; name it, as in --ranks 0"
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused_with_a_line(words: tuple[str, ...], phantom_run: Command) -> None:
    answer = phantom_run(*words)
    assert answer.code == 2
    assert answer.last_line == f"coopsim: {REFUSED[words]}"


BROKEN = """\
import os, sys, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(3, device="cuda")
if dist.get_rank() == 1 or "all" in sys.argv:
    raise ValueError("only here")
dist.barrier()
"""


@pytest.mark.slow
def test_the_rank_that_fails_is_named(tmp_path: Path, phantom_run: Command) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    answer = phantom_run("--world", "3", "--ranks", "all", "--", "python", file)
    assert (answer.code, answer.last_line) == (2, "coopsim: rank 1: broken.py:6: ValueError: only here")
    answer = phantom_run("--world", "8", "--ranks", "0,7", "--", "python", file, "all")
    assert (answer.code, answer.last_line) == (2, "coopsim: ranks 0, 7: broken.py:6: ValueError: only here")
    left = subprocess.run(["pgrep", "-f", str(file)], capture_output=True, text=True, check=False)
    assert not left.stdout


def test_worlds() -> None:
    two_machines = world.of_size(16).running("all")
    assert two_machines.together
    told = two_machines.variables(11, 1)
    assert (told["RANK"], told["LOCAL_RANK"], told["GROUP_RANK"], told["LOCAL_WORLD_SIZE"]) == ("11", "3", "1", "8")
    assert world.of_size(4).devices == 4
    with pytest.raises(CaptureError, match="do not fill"):
        world.of_size(9)


def test_words_of_a_rank() -> None:
    launch = launcher.Launch(["python", "t.py", "--local-rank=${local_rank}"], 2, 4, virtual=False, variables={})
    assert launch.words(6) == ["python", "t.py", "--local-rank=2"]


def test_the_cards_that_a_command_finds() -> None:
    assert launcher.devices(("python", "train.py"), {}) == 1
    assert launcher.devices(("torchrun", "train.py"), {}) == 8
    assert launcher.devices(("torchrun", "train.py"), {"CUDA_VISIBLE_DEVICES": "0, 2"}) == 2
    assert launcher.devices(("python", "train.py"), {"CUDA_VISIBLE_DEVICES": "3,-1,0"}) == 1
    with pytest.raises(CaptureError, match="hides all cards"):
        launcher.devices(("python", "train.py"), {"CUDA_VISIBLE_DEVICES": ""})
