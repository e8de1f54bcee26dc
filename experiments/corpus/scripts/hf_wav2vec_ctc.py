"""wav2vec 2.0 with CTC on raw audio, its convolutions frozen."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

config = Wav2Vec2Config(
    vocab_size=32,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    conv_dim=(32, 32, 32),
    conv_kernel=(10, 3, 3),
    conv_stride=(5, 4, 4),
    mask_time_prob=0.0,
    layerdrop=0.0,
)
model = Wav2Vec2ForCTC(config).cuda()
model.freeze_feature_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for _ in range(2):
    model(torch.randn(2, 8000, device="cuda"), labels=torch.randint(1, 32, (2, 10), device="cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
