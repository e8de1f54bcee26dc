"""Fine-tune a model of FLUX.2-klein-base-4B's shapes as peft's comparison does; weights, images and texts are zeros.

    coopsim phantom run --gpu l40s -- python images.py CONFIG_FOLDER RESULT.json DATE [STEPS]

DATE: of the run, as 2026-06-09. On 13 August the comparison's script was changed: since then the transformer goes to
the card after the text encoder has left it, and losses no longer keep their graphs.
"""

import sys
from pathlib import Path
from typing import Any

import torch
import training
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline, Flux2Transformer2DModel
from diffusers.training_utils import offload_models
from transformers import Dinov2Config, Dinov2Model, Qwen3Config, Qwen3ForCausalLM

BATCH, RESOLUTION, TOKENS = 2, 512, 512
IMAGES = 14  # 20 of the data set, less those that are kept for validation and test
OTHER_PROMPTS = 22  # of validation, test, drift and samples, and the empty one: encoded, and kept on the host (later)
CHANGED = "2026-08-13"
TEXT_LAYERS = (10, 20, 30)
OPTIMIZER = {"lr": 1e-4, "weight_decay": 1e-4}
STEPS = 8
EMPTIED = 4  # after this step, as the comparison does after each evaluation; then fragments remain


def transformer(*, checkpointing: bool) -> Any:
    """The public configuration of FLUX.2-klein-base-4B's transformer."""
    with torch.device("meta"):
        model = Flux2Transformer2DModel(
            in_channels=128,
            num_layers=5,
            num_single_layers=20,
            num_attention_heads=24,
            attention_head_dim=128,
            joint_attention_dim=7680,
            guidance_embeds=False,
        )
    model.to(torch.bfloat16).to_empty(device="cuda")
    if checkpointing:
        model.enable_gradient_checkpointing()
    return model


def text_encoder() -> Any:
    """Qwen3-4B's public configuration, on the host."""
    config = Qwen3Config(
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.to_empty(device="cpu").tie_weights()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def prompts(others: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Encoded, and their positions. The encoder's memory stays in the allocator's cache."""
    encoder = text_encoder()
    encoded, positions = [], []
    with offload_models(encoder, device="cuda"):
        for i in range(IMAGES + others):
            ids = torch.zeros(1, TOKENS, dtype=torch.int64).to("cuda")
            mask = (torch.arange(TOKENS) < TOKENS // 10).long()[None].to("cuda")
            states = encoder(
                input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False
            ).hidden_states
            chosen = torch.stack([states[k] for k in TEXT_LAYERS], dim=1)
            embedding = chosen.permute(0, 2, 1, 3).reshape(1, TOKENS, -1).repeat(1, 1, 1)
            if i < IMAGES:
                encoded.append(embedding)
                positions.append(torch.zeros(1, TOKENS, 4, dtype=torch.int64).to("cuda"))
            else:
                embedding.to("cpu")
    return torch.cat(encoded), torch.cat(positions)


@torch.no_grad()
def latents() -> torch.Tensor:
    """Of all images."""
    with torch.device("meta"):
        vae = AutoencoderKLFlux2().to(torch.bfloat16)
    vae.to_empty(device="cpu").eval().requires_grad_(False)
    mean, variance = (x.view(1, -1, 1, 1) for x in (vae.bn.running_mean, vae.bn.running_var))
    found = []
    with offload_models(vae, device="cuda"):
        mean, deviation = mean.to("cuda"), variance.sqrt().to("cuda")
        for _ in range(0, IMAGES, BATCH):
            pixels = torch.zeros(BATCH, 3, RESOLUTION, RESOLUTION).to(device="cuda", dtype=torch.bfloat16)
            found.append(
                (Flux2KleinPipeline._patchify_latents(vae.encode(pixels).latent_dist.mode()) - mean) / deviation
            )
    return torch.cat(found)


def main(folder: Path, result: Path, date: str, steps: int) -> None:
    settings = training.Settings(folder, batch=BATCH, optimizer=OPTIMIZER, checkpointing=True)
    rows = settings.batch
    meter = training.Meter()
    model = training.adapt(transformer(checkpointing=settings.checkpointing), settings)
    model.to("cpu")
    torch.cuda.empty_cache()
    model.train()
    with torch.device("meta"):
        judge = Dinov2Model(Dinov2Config(image_size=518))  # of the evaluation; it stays on the card
    judge.to_empty(device="cuda").eval()
    later = date >= CHANGED
    if not later:
        model.to("cuda")
    optimizer = training.optimizer(model, settings)
    embeddings, positions = prompts(OTHER_PROMPTS if later else 0)
    images = latents()
    model.to("cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    generator = torch.Generator(device="cuda").manual_seed(0)
    order = torch.cat([torch.randperm(IMAGES, generator=generator, device="cuda") for _ in range(1000)])
    schedule = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    losses = []
    for step in range(1, steps + 1):
        chosen = order[(step - 1) * rows : step * rows]
        clean, text, text_ids = (x.index_select(0, chosen) for x in (images, embeddings, positions))
        image_ids = Flux2KleinPipeline._prepare_latent_ids(clean).to("cuda")
        noise = torch.randn_like(clean)
        at = (torch.rand(rows) * schedule.config.num_train_timesteps).long()
        times = schedule.timesteps[at].to("cuda")
        sigma = schedule.sigmas.to(clean.dtype)[at].view(-1, 1, 1, 1).to("cuda")
        noisy = Flux2KleinPipeline._pack_latents((1 - sigma) * clean + sigma * noise)
        optimizer.zero_grad(set_to_none=True)
        predicted = model(
            hidden_states=noisy,
            timestep=times / 1000,
            guidance=None,
            encoder_hidden_states=text,
            txt_ids=text_ids,
            img_ids=image_ids,
            return_dict=False,
        )[0][:, : noisy.size(1)]
        side = images.size(-1)
        predicted = Flux2KleinPipeline._unpack_latents_with_ids(predicted, image_ids, side, side)
        target = noise - clean
        loss = ((predicted.float() - target.float()) ** 2).reshape(rows, -1).mean(1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        training.allocate_ranks(model, step, steps)
        losses.append(loss.detach() if later else loss)
        loss.item()
        meter.step()
        if step == EMPTIED:
            torch.cuda.empty_cache()
    meter.write(model, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else STEPS)
