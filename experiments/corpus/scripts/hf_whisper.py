"""Whisper: log-mel features, a decoder with labels, a frozen encoder."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

config = WhisperConfig(
    vocab_size=300,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    max_source_positions=100,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
model = WhisperForConditionalGeneration(config).cuda()
model.freeze_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for _ in range(3):
    features, labels = torch.randn(2, 80, 200, device="cuda"), torch.randint(3, 300, (2, 20), device="cuda")
    model(input_features=features, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
