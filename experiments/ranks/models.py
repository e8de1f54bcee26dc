"""The models of the experiment, and how many numbers of their weights a rank holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

#: Of every number of a weight: itself and AdamW's two moments, in fp32.
STATE_BYTES = 12


@dataclass(frozen=True)
class Model:
    """A Llama: the fields of its transformers.LlamaConfig, and what it is trained on."""

    config: dict[str, int]
    batch: int
    length: int
    checkpointed: bool = False

    def shapes(self) -> Iterator[tuple[int, ...]]:
        """Of every weight."""
        c = self.config
        hidden, inner, vocabulary = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
        keys = hidden // c["num_attention_heads"] * c["num_key_value_heads"]
        for _ in range(c["num_hidden_layers"]):
            yield from ((hidden, hidden), (keys, hidden), (keys, hidden), (hidden, hidden))
            yield from ((inner, hidden), (inner, hidden), (hidden, inner), (hidden,), (hidden,))
        yield from ((vocabulary, hidden), (hidden,), (vocabulary, hidden))

    def shard(self, world: int) -> int:
        """Numbers that rank 0 of `world` holds: FSDP2 gives it the first part of each weight's rows, rounded up."""
        return sum(-(-rows // world) * prod(rest) for rows, *rest in self.shapes())


MODELS = {
    "llama-1b": Model(
        {
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_hidden_layers": 22,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "vocab_size": 32000,
        },
        batch=2,
        length=1024,
    ),
    "llama-8b": Model(
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
        },
        batch=1,
        length=8192,
        checkpointed=True,
    ),
}
