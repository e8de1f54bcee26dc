"""The options of the program's own command line, as its parser has read them (inside/arguments.py)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"-\d*\.?\d+(e-?\d+)?")  #: a negative one, no option
_FIRST = r"(?:^|_)"
#: What options are called that speak of: the batch of one forward pass, that of all ranks and micro-batches, the number
#: of batches whose gradients are added up, recomputation, and so on.
BATCH = re.compile(
    _FIRST + r"(?<!global_)(?<!total_)(?<!effective_)(?:(?:micro|local)_?batch(?:_?size)?(?:_per_(?:device|gpu))?"
    r"|(?:per_(?:device|gpu)_)?(?:train(?:ing)?_)?batch_?size(?:_per_(?:device|gpu))?|batch|bs|bsz"
    r"|tokens_per_(?:micro_?batch|batch|device|gpu|rank)(?:_per_\w+)?)$"
)
GLOBAL_BATCH = re.compile(
    _FIRST + r"(?:(?:global|total|effective)_(?:train_)?batch(?:_?size)?|tokens_per_(?:train_)?step)$"
)
TIMES = re.compile(
    _FIRST + r"(?:grad(?:ient)?s?_?acc(?:um(?:ulat(?:e|ion))?)?(?:_?(?:steps?|iters?|batches|freq))?"
    r"|accum(?:ulat(?:e|ion))?|acc(?:um(?:ulat(?:e|ion))?)?_?(?:grad(?:ient)?_)?(?:batches|steps?|iters?|freq)"
    r"|update_freq)$"
)
CHECKPOINTING = re.compile(
    _FIRST + r"(?:(?:grad(?:ient)?s?|act(?:ivation)?s?)_?(?:check_?point|ckpt)(?:ing|s)?(?:_mode)?"
    r"|use_checkpoint(?:ing)?|checkpoint_activations|recompute(?:_activations|_granularity)?|remat)$"
)
PRECISION = re.compile(_FIRST + r"(?:bf16|bfloat16|amp|autocast|(?:mixed_)?precision|d_?type|amp_d_?type)$")
OPTIMIZER = re.compile(_FIRST + r"(?:opt|optim|optimi[sz]er(?:_(?:type|name))?|use_8_?bit_adam)$")
BUCKETS = re.compile(_FIRST + r"bucket(?:_size|_cap)(?:_mb)?$")
COMPILE = re.compile(_FIRST + r"(?:torch_?)?compile(?:_model|_enable)?$")
_OTHERWISE = re.compile(_FIRST + r"(?:no|not|disable|eval\w*|val(?:id\w*)?|test|infer\w*|generat\w*)_")


@dataclass(frozen=True)
class Option:
    """An option of the program. names: all of them, as typed; one that ends in "=" is one word with its value.

    value: what it is in this run; None if nothing. takes: whether "no" value follows the name, "a" value, or "perhaps"
    one, True or False. choices: the values that it may have, () if not known. file: that of settings with it, which the
    command names; "" for an option of the command itself.
    """

    names: tuple[str, ...]
    value: bool | int | float | str | None
    takes: str = "a"
    choices: tuple[str, ...] = ()
    file: str = ""

    @property
    def shown(self) -> str:
        """Its longest name, as typed."""
        return max(self.names, key=len)

    @property
    def name(self) -> str:
        """Its longest name, as words: `--train.micro-batch` is "train_micro_batch", `--batchSize` is "batch_size"."""
        return re.sub(r"[-.=]+|(?<=[a-z])(?=[A-Z])", "_", self.shown.strip("-=")).lower()

    def speaks_of(self, topic: re.Pattern[str]) -> bool:
        """Return whether its name is about a topic, such as BATCH, in training."""
        return bool(topic.search(self.name)) and not _OTHERWISE.search(self.name)

    @property
    def is_switch(self) -> bool:
        """Whether it turns something on or off."""
        return self.takes != "a" or isinstance(self.value, bool)

    def added(self, command: Sequence[str], value: str) -> tuple[str, ...]:
        """Return a command in which it has a value; "True" turns a switch on.

        "-" and "_" in names count as the same. If the command lacks it, it is appended; for one of a file, nothing is.

        >>> tf32, lr = Option(("--tf32",), None, "perhaps"), Option(("-l", "--lr"), 1.0)
        >>> tf32.added(("a.py", "--tf32", "--lr=1"), "True"), lr.added(("a.py", "-l", "1"), "-2")
        (('a.py', '--tf32', 'True', '--lr=1'), ('a.py', '-l', '-2'))
        """
        if self.file:
            return tuple(command)
        words, own = list(command), {_plain(name) for name in self.names}
        for i, word in enumerate(words):
            name, equals, _ = word.partition("=")
            if not ((word.startswith("-") or f"{name}=" in self.names) and _plain(name) in own):
                continue
            if self.takes == "no":
                return tuple(words)
            if equals:
                words[i] = f"{name}={value}"
            else:
                has_value = i + 1 < len(words) and (_NUMBER.fullmatch(words[i + 1]) or not words[i + 1].startswith("-"))
                words[i + 1 : i + 1 + bool(has_value)] = [value]
            return tuple(words)
        if self.shown.endswith("="):
            return (*words, f"{self.shown}{value}")
        return (*words, self.shown) if self.takes == "no" else (*words, self.shown, value)


def _plain(option: str) -> str:
    return option.strip("-=").replace("-", "_")


def about(options: Sequence[Option], topic: re.Pattern[str]) -> list[Option]:
    """Return the options whose names are about a topic; those of files last, of smaller parts (`micro`) first."""
    found = [option for option in options if option.speaks_of(topic)]
    parts = ("micro|local|device|gpu", "micro|local|device|gpu|train")
    return sorted(found, key=lambda option: [bool(option.file), *(not re.search(part, option.name) for part in parts)])


@dataclass(frozen=True)
class BatchOptions:
    """The options that divide a batch. batch: that of one forward pass, None if a placeholder of the command sets it.

    times: the number of batches whose gradients are added up; or whole: the batch of all of them, of which the program
    computes that number. Without either, no option adds up gradients.
    """

    batch: Option | None
    times: Option | None
    whole: Option | None = None

    @classmethod
    def find(cls, options: Sequence[Option]) -> "BatchOptions | None":
        """Return the options that divide a batch; None if there are none.

        >>> words = Option(("--batch-size",), 8), Option(("--grad-accum-steps",), 1), Option(("--eval-batch-size",), 4)
        >>> BatchOptions.find(words).command(("a.py",), 4, 2)
        ('a.py', '--batch-size', '2', '--grad-accum-steps', '4')
        """
        batch = next((one for one in about(options, BATCH) if type(one.value) is int and one.value > 0), None)
        times = next((one for one in about(options, TIMES) if one.value is None or type(one.value) is int), None)
        whole = next((one for one in about(options, GLOBAL_BATCH) if one.value is None or type(one.value) is int), None)
        if times is not None:
            return cls(batch, times)
        return cls(batch, None, whole) if batch is not None else None

    @property
    def adds_up(self) -> bool:
        """Whether options set how many batches' gradients are added up."""
        return self.times is not None or self.whole is not None

    @property
    def is_unset(self) -> bool:
        """Whether the program computes the batch of all micro-batches itself."""
        return self.whole is not None and int(self.whole.value or 0) < 1

    @property
    def keeps_the_sum(self) -> bool:
        """Whether as many samples make up a step with other micro-batches."""
        return self.adds_up and not (self.times is None and self.is_unset)

    @property
    def wanted(self) -> int | None:
        """The batch of one forward pass in the unchanged script; None if no option says so."""
        return None if self.batch is None else int(self.batch.value or 0)

    def values(self, times: int, part: int = 0) -> tuple[tuple[Option, str], ...]:
        """Return the values for `times` times as many batches per step, of `part` samples (0: as before)."""
        found = [] if self.batch is None or not part else [(self.batch, str(part))]
        if self.times is not None:
            found.append((self.times, str(max(int(self.times.value or 1), 1) * times)))
        elif self.whole is not None and part and self.is_unset:
            found.append((self.whole, str(part * times)))
        return tuple(found)

    def command(self, command: tuple[str, ...], times: int, part: int = 0) -> tuple[str, ...]:
        """Return the command with these values."""
        for option, value in self.values(times, part):
            command = option.added(command, value)
        return command
