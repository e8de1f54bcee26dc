"""The changes that a remedy makes to a script, as they are passed to its processes."""

import json
from dataclasses import asdict, dataclass, fields, replace

from coopsim.base.typed import read


@dataclass(frozen=True)
class Changes:
    """Changes to a script; none by default. `with_` joins two.

    lines: to be run at the first call of a model, as they are printed: its number, its name in them, and themselves.
    autocast: run forward passes in bfloat16, those of the numbered `models` (none: of all). sharded_half: FSDP2
    computes in bfloat16. reshard: FSDP frees gathered layers after the forward pass. limit_gathers: FSDP1 limits
    all-gathers in flight; no_prefetch: it does not prefetch. sync_each: FSDP reduces gradients after each micro-batch.
    foreach, fused: this option of every optimizer (None: as it is). set_to_none: this option of every zero_grad.
    accumulate: the optimizer steps once per so many calls. hold_gradients: gradients are never freed, so that every
    step takes the memory of accumulation. activation_memory_budget: this setting of AOTAutograd's partitioner (None:
    the script's). live: the budget in which coopsim.live runs the script, "" for none; it excludes all of the above.
    offload: its plans may copy values to the host. divide: batches are so many times smaller, those of
    TrainingArguments if `in_arguments`, else those of data loaders; a library's own accumulation is multiplied by it.
    bf16_weights: weights become bfloat16, those of the numbered `models`. printed: names of changes that only printed
    lines can make. variables: environment variables. cards: the number of ranks, 0 for as many as the command starts.
    """

    lines: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    autocast: bool = False
    models: tuple[int, ...] = ()
    sharded_half: bool = False
    reshard: bool = False
    limit_gathers: bool = False
    no_prefetch: bool = False
    sync_each: bool = False
    foreach: bool | None = None
    fused: bool | None = None
    set_to_none: bool = False
    accumulate: int = 1
    hold_gradients: bool = False
    activation_memory_budget: float | None = None
    divide: int = 1
    in_arguments: bool = False
    bf16_weights: bool = False
    printed: tuple[str, ...] = ()
    live: str = ""
    offload: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    cards: int = 0

    @property
    def of_fsdp(self) -> bool:
        """Whether they change how FSDP gathers layers: one of reshard, limit_gathers, no_prefetch, sync_each."""
        return self.reshard or self.limit_gathers or self.no_prefetch or self.sync_each

    @property
    def stand_in(self) -> "Changes":
        """The changes to run for these: for accumulation, gradients are held, and every step is taken.

        Accumulated gradients take memory from the second batch on, and a short trial may end before the optimizer
        steps.
        """
        return self.with_(Changes(hold_gradients=True)) if self.accumulate > 1 else self

    @property
    def outside_files(self) -> "Changes":
        """The changes that no line in the script's files makes: variables, live and cards; `printed` is kept, too."""
        return Changes(
            variables=self.variables, live=self.live, offload=self.offload, cards=self.cards, printed=self.printed
        )

    def with_(self, other: "Changes") -> "Changes":
        """Return both changes joined: `lines` and `printed` of both.

        Of other fields, `other`'s value unless it is none.
        """
        nothing = Changes()
        said = {f.name: getattr(other, f.name) for f in fields(Changes)}
        said |= {"printed": self.printed + other.printed, "lines": self.lines + other.lines}
        return replace(self, **{name: v for name, v in said.items() if v != getattr(nothing, name)})

    def message(self) -> str:
        """Return the changes as JSON, to be read (`read`) by the plugin in the script's process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, message: str) -> "Changes":
        """Return the changes that `message` was made of."""
        found: Changes = read(cls, json.loads(message))
        return found
