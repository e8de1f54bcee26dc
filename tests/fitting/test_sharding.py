"""FSDP's settings: what is pasted, that a rank takes less with them, and that its numbers stay."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from coopsim.fitting import apply
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import fsdp
from coopsim.fitting.editing.patch import with_patch
from coopsim.fitting.remedies import settings
from coopsim.fitting.survey import Sharding
from coopsim.run import Script, run
from tests.conftest import Runner
from tests.fitting.made import surveyed, verified

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
