"""Fine-tune a language model in full, by LoRA or QLoRA, with DPO or GRPO: what docs/fine-tuning.md measures.

Weights are random and texts are not read from anywhere: memory depends on neither. Needs transformers; QLoRA needs
bitsandbytes.
"""

import argparse
from contextlib import contextmanager

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    "3b": LlamaConfig(  # the public configuration of Llama-3.2-3B
        hidden_size=3072,
        intermediate_size=8192,
        num_hidden_layers=28,
        num_attention_heads=24,
        num_key_value_heads=8,
        vocab_size=128256,
        tie_word_embeddings=True,
    ),
    "tiny": LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
    ),
}


class LoRA(nn.Module):
    """A frozen linear layer and, beside it, a product of two thin matrices in fp32."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer, self.on = layer, True
        self.a = nn.Linear(layer.in_features, rank, bias=False, device="cuda")
        self.b = nn.Linear(rank, layer.out_features, bias=False, device="cuda")

    def forward(self, x):
        y = self.layer(x)
        return y + self.b(self.a(x.to(self.a.weight.dtype))).to(y.dtype) if self.on else y


def quantized(layer):
    """A layer in 4 bits (nf4), whose weights come from the host."""
    import bitsandbytes as bnb

    new = bnb.nn.Linear4bit(layer.in_features, layer.out_features, bias=False, quant_type="nf4", device="meta")
    weights = torch.empty(layer.weight.shape, dtype=torch.bfloat16)
    new.weight = bnb.nn.Params4bit(weights, requires_grad=False, quant_type="nf4").to("cuda")
    return new


def linear_layers(model):
    """Those of the blocks: parent, name, layer."""
    for name, layer in list(model.model.layers.named_modules()):
        if isinstance(layer, nn.Linear):
            parent, _, child = name.rpartition(".")
            yield model.model.layers.get_submodule(parent), child, layer


def load(shapes, four_bits):
    """The model on the card, in bf16."""
    with torch.device("meta"):
        model = LlamaForCausalLM(shapes).to(torch.bfloat16)
    if four_bits:
        for parent, name, layer in linear_layers(model):
            setattr(parent, name, quantized(layer))
    for module in model.modules():
        for name, p in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if p.is_meta:
                empty = torch.empty_like(p, device="cuda")
                setattr(module, name, nn.Parameter(empty) if isinstance(p, nn.Parameter) else empty)
    model.tie_weights()
    return model


def adapt(model, names, rank):
    """Freeze the model and put an adapter at each layer of these names."""
    model.requires_grad_(False)
    for parent, name, layer in linear_layers(model):
        if name in names:
            setattr(parent, name, LoRA(layer, rank))


@contextmanager
def reference(model):
    """Without the adapters it is the model that training began with."""
    adapters = [m for m in model.modules() if isinstance(m, LoRA)]
    for m in adapters:
        m.on = False
    with torch.no_grad():
        yield
    for m in adapters:
        m.on = True


def log_probabilities(model, ids):
    """Of each token, given those before it."""
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)


def supervised(model, args):
    ids = torch.randint(1000, (args.batch, args.length), device="cuda")
    return model(input_ids=ids, labels=ids, use_cache=False).loss


def dpo(model, args):
    """Each prompt with an answer that is preferred and one that is not."""
    ids = torch.randint(1000, (2 * args.batch, args.length), device="cuda")
    with reference(model):
        before = log_probabilities(model, ids).sum(-1)
    chosen, rejected = (log_probabilities(model, ids).sum(-1) - before).chunk(2)
    return -nn.functional.logsigmoid(0.1 * (chosen - rejected)).mean()


def grpo(model, args):
    """A group of answers to a prompt, generated, and weighted by their rewards."""
    ids = torch.randint(1000, (1, args.length), device="cuda").repeat(args.batch, 1)
    with torch.no_grad():
        last, cache = ids, None
        for _ in range(args.new):
            output = model(input_ids=last, past_key_values=cache, use_cache=True, logits_to_keep=1)
            last, cache = output.logits[:, -1].softmax(-1).multinomial(1), output.past_key_values
            ids = torch.cat([ids, last], dim=1)
        del output, cache
    with reference(model):
        before = log_probabilities(model, ids)[:, args.length - 1 :]
    now = log_probabilities(model, ids)[:, args.length - 1 :]
    advantage = torch.randn(args.batch, 1, device="cuda")
    ratio = (now - now.detach()).exp()
    away = (before - now).exp() - (before - now) - 1
    return -(ratio * advantage - 0.04 * away).mean()


LOSSES = {"full": supervised, "lora": supervised, "qlora": supervised, "dpo": dpo, "grpo": grpo}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=LOSSES)
    parser.add_argument("--model", choices=SHAPES, default="3b")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--new", type=int, default=128, help="tokens that grpo generates")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--checkpointing", action="store_true")
    args = parser.parse_args()

    model = load(SHAPES[args.model], args.method == "qlora")
    if args.method != "full":
        adapt(model, ("q_proj", "v_proj"), args.rank)
    if args.checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    for _ in range(3):
        loss = LOSSES[args.method](model, args)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
