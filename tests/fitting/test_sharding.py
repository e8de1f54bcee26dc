"""FSDP's settings: what is pasted, that a rank takes less with them, and that its numbers stay."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.fitting import apply
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import fsdp
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import settings
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.fitting.survey import Sharding
from coopsim.run import Script, run
from tests.conftest import Runner
from tests.fitting.made import MIB, surveyed, verified

SCRIPT = Path(__file__).parent / "scripts" / "sharded.py"
_OPTIONS = "limit_all_gathers=False,\n    sharding_strategy=ShardingStrategy.SHARD_GRAD_OP"
_CALL = f"model = FSDP(\n    net,\n    {_OPTIONS},\n)\n"


def _call(file: Path, text: str, *, keeps: str = "FULL_SHARD", name: str = "FullyShardedDataParallel") -> Sharding:
    file.write_text(text)
    return Sharding(name, keeps, unlimited=True, ahead=("backward_prefetch",), file=str(file), line=1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Changes(reshard=True), _CALL.replace("SHARD_GRAD_OP", "FULL_SHARD")),
        (Changes(limit_gathers=True), _CALL.replace("False", "True")),
        (Changes(no_prefetch=True), _CALL.replace("OP,\n)", "OP,\n    backward_prefetch=None,\n)")),
    ],
)
def test_a_call_with_another_argument(tmp_path: Path, changes: Changes, expected: str) -> None:
    old, new = fsdp.replaced(_call(tmp_path / "a.py", _CALL), changes) or ("", "")
    assert _CALL.replace(old, new) == expected


@pytest.mark.parametrize("text", ["wrap(net)", "FSDP(net, **options)", "FSDP(net, sharding_strategy=chosen)"])
def test_a_call_that_is_not_certain(tmp_path: Path, text: str) -> None:
    call = _call(tmp_path / "b.py", f"model = {text}\n")
    assert fsdp.replaced(call, Changes(reshard=True)) is None
    assert fsdp.lines(call, Changes(reshard=True)) == (
        "from torch.distributed.fsdp import ShardingStrategy",
        "FullyShardedDataParallel(..., sharding_strategy=ShardingStrategy.FULL_SHARD)",
    )


def test_the_second_version(tmp_path: Path) -> None:
    call = _call(tmp_path / "c.py", "fully_shard(net, reshard_after_forward=False)\n", keeps="True", name="fully_shard")
    expected = "fully_shard(net, reshard_after_forward=True)"
    assert fsdp.lines(call, Changes(reshard=True)) == (expected,)


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize(("version", "memory_mib"), [("1", 1300), ("2", 1200)])
def test_layers_that_are_dropped(tmp_path: Path, version: str, memory_mib: int) -> None:
    command = ("torchrun", "--nproc-per-node", "8", str(SCRIPT), version)
    it = Script(command, card="rtx-3060", memory_bytes=memory_mib << 20, quiet=True)
    case = surveyed(it, tmp_path)
    wanted = next(p for p in settings.of_sharding(case) if p.changes.reshard)
    remedy = verified(case, wanted)
    assert remedy is not None
    assert (remedy.verified, remedy.same_numbers) == (True, True)
    assert remedy.time_ratio > 1  # layers are gathered once more
    copy = tmp_path / SCRIPT.name
    copy.write_text(SCRIPT.read_text())
    patch = with_patch(remedy, case.survey).patch
    subprocess.run(["patch", str(copy)], input=patch, text=True, check=True, capture_output=True)
    patched = replace(it, command=(*command[:3], str(copy), version))
    assert run(patched).peak_device_bytes == apply(it, remedy).peak_device_bytes <= it.total_bytes


STEP = '    model(torch.randn(512, 1024, device="cuda")).square().mean().backward()\n'
DEFERS = {
    "1": "        with model.no_sync() if i == 0 else nullcontext():\n        ",
    "2": "        model.set_requires_gradient_sync(i == 1)\n    ",
}


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("version", ["1", "2"])
def test_gradients_that_are_reduced_after_each_micro_batch(tmp_path: Path, version: str) -> None:
    """Of 268 MB that a rank keeps for the next batch, an eighth is left."""
    text = SCRIPT.read_text().replace(STEP, f"    for i in range(2):\n{DEFERS[version]}{STEP}")
    file = tmp_path / "train.py"
    file.write_text(text.replace("import os\n", "import os\nfrom contextlib import nullcontext\n"))
    it = Script(("torchrun", "--nproc-per-node", "8", str(file), version), card="rtx-3060", quiet=True)
    trials = Trials(it, Runs(lambda _: None))
    survey = trials.survey(tmp_path / "requests.npy")
    trials.script = replace(it, memory_bytes=survey.needs_bytes - 150 * MIB)
    first = next(settings.of_sharding(Bench(trials, survey)))
    assert first.changes == Changes(sync_each=True)
    done = trials.verify(first, survey)
    assert done is not None
    assert (done.stand_in, done.same_numbers) == ("", False)
    line = {"1": "with contextlib.nullcontext() if i == 0", "2": "model.set_requires_gradient_sync(True)"}[version]
    assert any(line in row for row in done.lines)
    printed, stand_in = trials.reports[first.changes], trials.run("as a stand-in", first.changes)
    assert stand_in is not None
    for report in (printed, stand_in):
        assert report.peak_allocated_bytes < survey.report.peak_allocated_bytes - 200 * MIB


RANKS = """
import subprocess
rank = '''
import hashlib, sys, torch
from torch import distributed as dist, nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

def train(version, **options):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(4)]
    model = nn.Sequential(*layers)
    if version == 1:
        policy = ModuleWrapPolicy({nn.Linear})
        model = FullyShardedDataParallel(
            model, auto_wrap_policy=policy, device_id=torch.device("cpu"), **options
        )
    else:
        for layer in layers:
            fully_shard(layer, mesh=mesh, **options)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(dist.get_rank())
    for _ in range(3):
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    shards = [p.to_local() if version == 2 else p for p in model.parameters()]
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in shards)).hexdigest()

keep = ShardingStrategy.SHARD_GRAD_OP
print(train(1, sharding_strategy=keep), train(1, limit_all_gathers=False), train(1), train(1, backward_prefetch=None))
print(train(2, reshard_after_forward=False), train(2, reshard_after_forward=True))
'''
command = [sys.executable, "-c", rank, os.environ["MEET"]]
both = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(2)]
answer([one.communicate()[0].splitlines() for one in both])
"""


@pytest.mark.slow
def test_numbers_stay(on_phantom: Runner, tmp_path: Path) -> None:
    """Two ranks train on the CPU with each setting: their shards are the same, bit for bit."""
    shards = on_phantom(RANKS, MEET=str(tmp_path / "meet"))
    assert len(shards) == 2
    for first, second in shards:
        assert len(set(first.split())) == len(set(second.split())) == 1
    assert shards[0] != shards[1]
