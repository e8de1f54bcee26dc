"""T5 in a loop, with Adafactor of transformers."""

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

config = T5Config(vocab_size=500, d_model=64, d_kv=16, num_heads=4, d_ff=128, num_layers=2, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).cuda()
optimizer = Adafactor(model.parameters(), relative_step=False, lr=1e-3, scale_parameter=False)
for _ in range(3):
    ids, labels = torch.randint(500, (8, 48), device="cuda"), torch.randint(500, (8, 24), device="cuda")
    labels[:, 20:] = -100
    model(input_ids=ids, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
