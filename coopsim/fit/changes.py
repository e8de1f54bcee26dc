"""What a remedy changes of a script: the message to the processes that run it."""

import json
from dataclasses import asdict, dataclass, fields, replace


@dataclass(frozen=True)
class Changes:
    """Nothing by default. Fields of two changes are joined by `with_`.

    checkpoint: the names of modules to recompute, within the `root`th model of the script, or within another one, whose
    number stands before a colon; own: by the model's own gradient_checkpointing_enable, if it has that; save: the ops
    whose results are kept all the same, but for the modules in plain. autocast: forward passes run in bfloat16, of the
    models with these numbers (none: of all). sharded_half: what FSDP2 shards is computed in bfloat16. reshard: FSDP
    drops what it gathered after the forward pass. limit_gathers: FSDP1 limits what it gathers ahead; no_prefetch: it
    gathers nothing ahead. foreach, fused: of every optimizer, None: as it is. set_to_none: of every zero_grad.
    accumulate: the optimizer steps once in so many calls. no_cache: models of transformers keep no cache of keys and
    values. chunked_loss: cross entropies are made in chunks. hold_gradients: gradients are never freed, which takes the
    memory of accumulation in every step. activation_memory_budget: of AOTAutograd's partitioner, whatever the script
    sets. live: the budget in which coopsim.live runs the script, which excludes all of the above.
    divide: batches are so many times smaller, of TrainingArguments where they are in_arguments, else of data loaders;
    what can adds up the gradients of as many. bf16_weights: of the models with these numbers, or all. printed: what
    only the lines of a remedy can do, in words. variables: of the environment. cards: the number of
    ranks, 0 for as many as the command starts.
    """

    root: int = 0
    checkpoint: tuple[str, ...] = ()
    own: bool = False
    save: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    autocast: bool = False
    models: tuple[int, ...] = ()
    sharded_half: bool = False
    reshard: bool = False
    limit_gathers: bool = False
    no_prefetch: bool = False
    foreach: bool | None = None
    fused: bool | None = None
    set_to_none: bool = False
    accumulate: int = 1
    hold_gradients: bool = False
    activation_memory_budget: float | None = None
    no_cache: bool = False
    chunked_loss: bool = False
    divide: int = 1
    in_arguments: bool = False
    bf16_weights: bool = False
    printed: tuple[str, ...] = ()
    live: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    cards: int = 0

    @property
    def of_fsdp(self) -> bool:
        """Do they concern FSDP's calls?"""
        return self.reshard or self.limit_gathers or self.no_prefetch

    @property
    def outside_files(self) -> "Changes":
        """Those that are not made in the script's files: of the environment, and how it is started."""
        return Changes(variables=self.variables, live=self.live, cards=self.cards, printed=self.printed)

    def of_model(self, number: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `checkpoint` or `plain` that name modules of a model, within it.

        >>> changes = Changes(root=2, checkpoint=("layers.0", "5:h.1"))
        >>> changes.of_model(2, changes.checkpoint), changes.of_model(5, changes.checkpoint)
        (('layers.0',), ('h.1',))
        """
        found = (name.rpartition(":") for name in names)
        return tuple(name for model, _, name in found if int(model or self.root) == number)

    def with_(self, other: "Changes") -> "Changes":
        """Both: what the other one says beats this one."""
        nothing = Changes()
        said = {f.name: getattr(other, f.name) for f in fields(Changes)}
        said["printed"] = self.printed + other.printed
        return replace(self, **{name: v for name, v in said.items() if v != getattr(nothing, name)})

    def message(self) -> str:
        """For the child process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, message: str) -> "Changes":
        """From the parent's words."""
        found = json.loads(message)
        found |= {name: tuple(found[name]) for name in ("checkpoint", "save", "plain", "models", "printed")}
        found["variables"] = tuple((name, value) for name, value in found["variables"])
        return cls(**found)
