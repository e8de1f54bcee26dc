"""T5: an encoder, a decoder, and Adafactor's place taken by AdamW."""

import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration

config = T5Config(d_model=384, d_kv=64, d_ff=1536, num_layers=4, num_heads=6, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    ids = torch.randint(1, 32000, (int(sys.argv[1]), 256), device="cuda")
    model(input_ids=ids, labels=ids[:, :64].contiguous()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
