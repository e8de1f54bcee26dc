"""What stage_live.py runs: a program plain, or under `coopsim live run` in a share of what it takes plain."""

from dataclasses import dataclass

GPT2, BERT, RESNET = ("train.py", "gpt-2"), ("train.py", "bert-large"), ("train.py", "resnet-50")


@dataclass(frozen=True)
class Case:
    """program: a file of programs/ and its first argument. share: of the peak of `plain`; None: no budget.

    percent: the budget is given as a share, and else as an amount, as an arena needs. flags: of `live run`.
    """

    name: str
    program: tuple[str, str]
    plain: str = ""
    share: float | None = None
    percent: bool = False
    flags: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name in those of files."""
        return self.name.replace(" ", "-").replace("%", "")


def _budgets(word: str, program: tuple[str, str], share: float, more: tuple[str, ...] = ()) -> list[Case]:
    plain = f"{word} plain"
    return [
        Case(f"{word} live {share:.0%}", program, plain, share, percent=True, more=more),
        Case(f"{word} arena {share:.0%}", program, plain, share, flags=("--arena",), more=more),
        Case(f"{word} offload {share:.0%}", program, plain, share, flags=("--offload",), more=more),
    ]


#: The most valuable first.
CASES = (
    Case("gpt-2 plain", GPT2, more=("--profile",)),
    *_budgets("gpt-2", GPT2, 0.5, ("--profile",)),
    Case("fit plain", ("remedy.py", "plain")),
    Case("fit checkpointing", ("remedy.py", "checkpointing")),
    *_budgets("fit", ("remedy.py", "plain"), 0.64),
    Case("bert-large plain", BERT),
    *_budgets("bert-large", BERT, 0.5),
    Case("resnet-50 plain", RESNET),
    *_budgets("resnet-50", RESNET, 0.5),
    Case("gpt-2 plain again", GPT2),
    Case("gpt-2 live 100%", GPT2, "gpt-2 plain", 1.0, percent=True),
    Case("fit weights", ("remedy.py", "weights")),
    Case("fit precision", ("remedy.py", "precision")),
)


def get(key: str) -> Case:
    """The case with this key. StopIteration if there is none."""
    return next(case for case in CASES if case.key == key)


def by_name(name: str) -> Case:
    """The case with this name. StopIteration if there is none."""
    return next(case for case in CASES if case.name == name)
