"""The program's own options come first: read from its parser, tried, and combined."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.base.typed import read
from coopsim.fitting.batch import Batch, Given
from coopsim.fitting.bench import Bench
from coopsim.fitting.options import (
    BATCH,
    CHECKPOINTING,
    COMPILE,
    GLOBAL_BATCH,
    OPTIMIZER,
    PRECISION,
    TIMES,
    BatchOptions,
    Option,
)
from coopsim.fitting.remedies import microbatches, switches
from coopsim.fitting.searching import order
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Script
from tests.conftest import Runner
from tests.fitting.made import surveyed

MIB = 1 << 20

#: Options of programs that people start: timm, litgpt, nanoGPT, run_clm, Megatron-LM, torchtitan, diffusers, open_clip.
TOPICS = {
    CHECKPOINTING: (
        *("--grad-checkpointing", "--gradient_checkpointing", "--recompute-activations", "--recompute-granularity"),
        *("--activation_checkpoint.mode", "--model.use_checkpoint", "--use-activation-checkpointing"),
    ),
    BATCH: (
        *("--batch-size", "--train.micro_batch_size", "--batch_size=", "--per_device_train_batch_size"),
        *("--micro-batch-size", "--training.local_batch_size", "--train_batch_size", "--bs"),
        *("--batchSize", "--trainBatchSize", "batch=", "--training.num-tokens-per-microbatch-per-dp-rank"),
    ),
    GLOBAL_BATCH: ("--train.global_batch_size", "--global-batch-size", "--num-tokens-per-train-step"),
    TIMES: (
        *("--grad-accum-steps", "--gradient_accumulation_steps=", "--accum-freq", "--accumulate_grad_batches"),
        *("--accum_iter", "--update-freq", "--gradient-accumulation-steps"),
    ),
    PRECISION: ("--amp", "--bf16", "--precision", "--mixed_precision", "--dtype=", "--training.dtype"),
    OPTIMIZER: ("--opt", "--optim", "--optimizer.name", "--use_8bit_adam"),
    COMPILE: ("--compile", "--torchcompile", "--torch_compile", "--compile=", "--model.compile"),
}
OTHERS = (
    *("--eval-batch-size", "--per_device_eval_batch_size", "--val_batch_size", "--checkpoint-hist", "--no-compile"),
    *("--resume-from-checkpoint", "--save_checkpoint", "--no-grad-checkpointing", "--num-batches", "--opt-eps"),
    *("--testBatchSize", "--batchNorm"),
    *("--checkpointing_steps", "--batch-split", "--gradient_clip", "--compile-mode", "--warmup_steps"),
)


@pytest.mark.parametrize(
    "topic", TOPICS, ids=["recompute", "batch", "global", "times", "16 bits", "optimizer", "compile"]
)
def test_what_an_option_speaks_of(topic: Any) -> None:
    """Its own options, and no other's."""
    for other, names in TOPICS.items():
        assert [name for name in names if Option((name,), 1).speaks_of(topic) != (other is topic)] == []
    assert [name for name in OTHERS if Option((name,), 1).speaks_of(topic)] == []


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ([("--batch-size", 8), ("--grad-accum-steps", 2)], "--batch-size 4 --grad-accum-steps 4"),
        ([("--batch_size=", 8), ("--accum_steps=", 5)], "--batch_size=4 --accum_steps=10"),
        ([("train.batch_size=", 8), ("train.accum_steps=", 5)], "train.batch_size=4 train.accum_steps=10"),
        ([("--train.global_batch_size", 64), ("--train.micro_batch_size", 8)], "--train.micro_batch_size 4"),
        ([("--global-batch-size", None), ("--micro-batch-size", 8)], "--micro-batch-size 4 --global-batch-size 8"),
        ([("--eval-batch-size", 16), ("--train-batch-size", 8), ("--accum", None)], "--train-batch-size 4 --accum 2"),
        ([("--batch-size", 8)], "--batch-size 4"),
        ([("--accum", None)], "--accum 2"),
        ([("--epochs", 8)], None),
    ],
)  # fmt: skip
def test_a_batch_is_divided_by_options(options: list[tuple[str, Any]], command: str | None) -> None:
    """Of the same sum, or not at all."""
    found = BatchOptions.find([Option((name,), value) for name, value in options])
    assert (found and " ".join(found.command(("a.py",), 2, 4)[1:])) == command


PARSERS = """
import sys
from coopsim.fitting.inside import arguments
from coopsim.fitting.options import Option

HEADS = {
    "argparse": '''
import argparse
first = argparse.ArgumentParser(add_help=False)
first.add_argument("--config")
_, rest = first.parse_known_args(WORDS)
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=8)
parser.add_argument("--grad-checkpointing", action="store_true")
commands = parser.add_subparsers()
commands.add_parser("train").add_argument("--opt", choices=["adamw", "adafactor"], default="adamw")
parser.parse_args([*rest, "train"])
''',
    "hf": '''
from dataclasses import dataclass
from transformers import HfArgumentParser
@dataclass
class Arguments:
    batch_size: int = 8
    grad_checkpointing: bool = False
    bf16: bool | None = None
    opt: str = "adamw"
HfArgumentParser(Arguments).parse_args_into_dataclasses(WORDS)
''',
    "jsonargparse": '''
from dataclasses import dataclass
from jsonargparse import ArgumentParser
@dataclass
class Arguments:
    batch_size: int = 8
    grad_checkpointing: bool = False
    opt: str = "adamw"
parser = ArgumentParser()
parser.add_class_arguments(Arguments, "train")
parser.parse_args([word.replace("--", "--train.") for word in WORDS])
''',
    "tyro": '''
from dataclasses import dataclass
import tyro
@dataclass
class Arguments:
    batch_size: int = 8
    grad_checkpointing: bool = False
    opt: str = "adamw"
tyro.cli(Arguments, args=[word.replace("_", "-") for word in WORDS])
''',
    "omegaconf": '''
from omegaconf import OmegaConf
settings = OmegaConf.create({"train": {"batch_size": 8, "grad_checkpointing": False, "opt": "adamw"}})
OmegaConf.merge(settings, OmegaConf.from_dotlist(["train.batch_size=16"]))
''',
    "hydra": '''
import hydra.core.utils
from omegaconf import OmegaConf
settings = {"train": {"batch_size": 16, "grad_checkpointing": False, "opt": "adamw"}, "hydra": {"job": {"bf16": 1}}}
try:
    hydra.core.utils.run_job(None, OmegaConf.create(settings), "", None, None)
except TypeError:  # there is no context of Hydra's
    pass
''',
    "click": '''
import click
@click.group()
def cli(): pass
@cli.command()
@click.option("-b", "--batch-size", default=8)
@click.option("--grad-checkpointing", is_flag=True)
@click.option("--opt", type=click.Choice(["adamw", "adafactor"]), default="adamw")
def train(batch_size, grad_checkpointing, opt): pass
cli(["train", *WORDS], standalone_mode=False)
''',
    "typer": '''
import typer
app = typer.Typer()
@app.command()
def train(batch_size: int = 8, grad_checkpointing: bool = False, opt: str = "adamw"): pass
app(WORDS, standalone_mode=False)
''',
    "words": '''
import sys
from types import SimpleNamespace
class Settings:
    pass
default, changed = Settings(), Settings()
default.train = SimpleNamespace(batch_size=8, grad_checkpointing=False, opt="adamw", data="sets/x.yaml")
changed.train = SimpleNamespace(**vars(default.train) | {"batch_size": 16})
sys.argv[1:] = ["train", "--train.batch_size=16", "--train.data=x.yaml"]
watch._see_words()
''',
}
found, watch = {}, arguments.Arguments()
for kind, head in HEADS.items():
    watch._found.clear()
    words = ["--batch_size" if kind in ("hf", "jsonargparse") else "--batch-size", "16"]
    try:
        exec(head, {"WORDS": words, "watch": watch, "__name__": "job"})
    except ModuleNotFoundError as e:
        found[kind] = str(e)
    else:
        found[kind] = watch.found()
answer(found)
"""


def test_options_are_read_from_parsers_of_every_kind(on_phantom: Runner) -> None:
    """Libraries that are not installed are left out."""
    found = on_phantom(PARSERS)
    kinds = {kind: said for kind, said in found.items() if not isinstance(said, str)}
    assert kinds.keys() >= {"argparse", "hf", "click", "typer"}
    for kind, said in kinds.items():
        options = {option.name.removeprefix("train_"): option for option in read(tuple[Option, ...], said)}
        assert options["batch_size"].value == 16, kind
        assert options["grad_checkpointing"].value is False, kind
        assert options["grad_checkpointing"].is_switch
        assert kind != "words" or options["batch_size"].names == ("--train.batch_size=",)
        assert options["opt"].value == "adamw"
        assert "bf16" not in options or options["bf16"].is_switch
        if kind in ("argparse", "click"):
            assert options["opt"].choices == ("adamw", "adafactor")
            assert set(options["batch_size"].names) == {"-b", "--batch-size"}
            assert options["grad_checkpointing"].takes == "no"


def bench(*options: Option, given: Given | None = None) -> Bench:
    """A script with these options, and a model in float32 of which nothing is known."""
    report = SimpleNamespace(compiled_graphs=0, context_bytes=0, peak_by_kind={}, ranks=())
    model = SimpleNamespace(half=False, autocast=False, name="", levels=(), keeps=False)
    adam = SimpleNamespace(type="AdamW", state_bytes=100)
    survey: Any = SimpleNamespace(
        report=report, models=[model], model=model, options=options, optimizers=[adam], needs_bytes=1 << 40,
        given=given or Given(options=BatchOptions.find(options)), trainer=False, adds_up=False,
        in_half=False,
    )  # fmt: skip
    return Bench(Trials(Script(("train.py", "--lr", "1"), card="rtx-3060"), Runs(lambda _: None)), survey)


def test_switches_that_are_off_are_turned_on() -> None:
    own = bench(
        Option(("--grad-checkpointing",), False, "no"),
        Option(("--remat",), True, "no"),
        Option(("--gradient_checkpointing",), None, "perhaps"),
        Option(("--recompute-granularity",), None, "a", ("selective", "full")),
        Option(("--bf16",), False, "perhaps"),
        Option(("--dtype=",), "float32"),
        Option(("--precision",), "bf16-true"),
        Option(("--preserve_input_precision",), False, "no"),
        Option(("--compile",), False, "no"),
    )
    assert [one.command[3:] for one in switches.recompute(own)] == [
        ("--grad-checkpointing",),
        ("--gradient_checkpointing", "True"),
        ("--recompute-granularity", "full"),
        ("--recompute-granularity", "selective"),
    ]
    assert [one.command[3:] for one in switches.half(own)] == [("--bf16", "True"), ("--dtype=bfloat16",)]
    assert [one.lines for one in switches.compiled(own)] == [("python train.py --lr 1 --compile",)]


@pytest.mark.parametrize(
    ("others", "tried"),
    [([], ["4", "2", "1"]), ([("--total-batch-size", -1)], ["4", "2", "1"]), ([("--accum", 1)], [])],
)
def test_a_batch_option_is_tried_where_none_keeps_the_sum(others: list[tuple[str, int]], tried: list[str]) -> None:
    own = bench(Option(("--batch-size",), 8), *(Option((name,), value) for name, value in others))
    own.survey.activation_bytes = 0
    assert [one.command[3:] for one in switches.smaller(own)] == [("--batch-size", value) for value in tried]
    if not others:  # with the lines that add up gradients
        remedy = microbatches.proposal(own, Batch((), 8, own.survey.given), 2)
        assert remedy.command[3:] == ("--batch-size", "2")
        assert {remedy.typed, "(loss / 4).backward()"} <= set(remedy.lines)


def test_buckets_become_smaller_where_they_take_memory() -> None:
    """DeepSpeed's, in a file that the command names, are of a gigabyte by default."""
    own = bench(Option(("zero.reduce_bucket_size",), 500_000_000, file="zero3.json"), Option(("--bucket-cap-mb",), 25))
    assert list(switches.buckets(own)) == []
    own.survey.report.peak_by_kind["buckets"] = 1 << 30
    rows = ("python train.py --lr 1 --bucket-cap-mb 2", "zero.reduce_bucket_size: 50000000  # in zero3.json")
    assert tuple(line for one in switches.buckets(own) for line in one.lines) == rows


def test_an_optimizer_that_is_not_installed_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches.util, "find_spec", lambda _: None)
    own = bench(Option(("--optim",), "adamw_torch", "a", ("adamw_torch", "adamw_8bit", "adafactor")))
    own.survey.needs_bytes = 0
    assert [one.command[3:] for one in switches.optimizer(own)] == [("--optim", "adafactor")]


def test_options_are_combined_in_one_command_and_come_first() -> None:
    own = bench(
        Option(("--grad-checkpointing",), False, "no"),
        Option(("--batch-size",), 8),
        Option(("--accum",), 1),
        Option(("--bf16",), False, "no"),
    )
    first, half = next(switches.recompute(own)), next(switches.half(own))
    batches = microbatches.proposal(own, Batch((), 8, own.survey.given), 2)
    assert batches.lines == ("python train.py --lr 1 --batch-size 2 --accum 4",)
    everything = first.with_(half).with_(batches)
    assert everything.lines == ("python train.py --lr 1 --batch-size 2 --accum 4 --grad-checkpointing --bf16",)
    lines = replace(first, options=(), same_numbers=True, lines=("model.half()",))
    nowhere = replace(lines, placed=False)
    assert sorted((nowhere, lines, half), key=lambda remedy: remedy.order) == [half, lines, nowhere]


def test_a_whole_batch_that_is_unset_is_not_made_up_for_several_ranks() -> None:
    """Ranks of tensor parallelism share a batch, those of data parallelism do not."""
    own = bench(Option(("--micro-batch-size",), 8), Option(("--global-batch-size",), None))
    batch = Batch((), 8, own.survey.given)
    assert microbatches.proposal(own, batch, 2).command[3:] == ("--micro-batch-size", "2", "--global-batch-size", "8")
    own.survey.report.ranks = (object(), object())
    assert "--global-batch-size" not in microbatches.proposal(own, batch, 2).command


SCRIPT = """
import argparse, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=4096)
parser.add_argument("--grad-accum-steps", type=int, default=1)
parser.add_argument("--grad-checkpointing", action="store_true")
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()

layers = nn.ModuleList(
    nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(8)
).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
for _ in range(3):
    for _ in range(args.grad_accum_steps):
        x = torch.randn(args.batch_size, 256, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=args.amp):
            for layer in layers:
                x = checkpoint(layer, x, use_reentrant=False) if args.grad_checkpointing else layer(x)
            loss = x.square().mean() / args.grad_accum_steps
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_they_are_the_first_trials(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    script = Script((str(tmp_path / "train.py"),), card="rtx-3060", memory_bytes=500 * MIB, quiet=True)
    case = surveyed(script, tmp_path)
    given = case.survey.given
    assert given.wanted == 4096
    kinds = order.by_gain(order.kinds(case, Batch((), given.wanted, given), together=False), case.over_bytes)
    for kind in kinds:
        kind.propose(case)
        if len(case.found) == 3:
            break
    rows = {remedy.lines[0].partition("train.py ")[2] for remedy in case.found.values()}
    assert rows == {"--grad-checkpointing", "--amp", "--batch-size 2048 --grad-accum-steps 2"}
    assert not any(remedy.stand_in for remedy in case.found.values())
    assert case.trials.runs.count <= 6


GLOBALS = """
import torch
batch_size = 8
gradient_accumulation_steps = 1
exec(open({configurator!r}).read())
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(batch_size, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CONFIGURATOR = """
import sys
for word in sys.argv[1:]:
    key, value = word.split("=")
    globals()[key[2:]] = int(value)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_globals_that_words_set_are_options(tmp_path: Path) -> None:
    """As nanoGPT's, which has no parser."""
    (tmp_path / "configurator.py").write_text(CONFIGURATOR)
    (tmp_path / "train.py").write_text(GLOBALS.format(configurator=str(tmp_path / "configurator.py")))
    script = Script((str(tmp_path / "train.py"), "--batch_size=16"), card="rtx-3060", quiet=True)
    given = Trials(script, Runs(lambda _: None)).survey(tmp_path / "requests.npy").given
    assert given.wanted == 16
    assert given.options is not None
    assert given.options.command(script.command, 4, 4)[1:] == ("--batch_size=4", "--gradient_accumulation_steps=4")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("adamw", "adafactor"), ("AdamW", "Adafactor"), ("torch.optim.AdamW", "torch.optim.Adafactor")],
)
def test_an_optimizer_is_spelled_as_the_program_spells_it(value: str, wanted: str) -> None:
    """LitGPT takes the name of a class."""
    own = bench(Option(("--optimizer",), value))
    own.survey.optimizers[0].state_bytes = 1 << 50
    assert [one.command[3:] for one in switches.optimizer(own)] == [("--optimizer", wanted)]


TRAINED = """
from coopsim.fitting.changes import Changes
from coopsim.fitting.inside.batches import Batches

watch = Batches(Changes())
from transformers import Trainer, TrainingArguments

trainer = object.__new__(Trainer)
trainer.args = TrainingArguments("out", per_device_train_batch_size=16, bf16=True)
TrainingArguments("out")  # as libraries make some for themselves
try:
    trainer.train()
except AttributeError:
    pass
answer([watch.found()["arguments"][name] for name in ("batch", "half")])
"""


@pytest.mark.slow
def test_the_arguments_are_those_of_the_trainer_that_trains(on_phantom: Runner) -> None:
    assert on_phantom(TRAINED) == [16, True]
