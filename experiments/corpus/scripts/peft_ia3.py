"""(IA)3 on a sequence-to-sequence model."""

import torch
from peft import IA3Config, TaskType, get_peft_model
from transformers import T5Config, T5ForConditionalGeneration

config = T5Config(vocab_size=300, d_model=64, d_kv=16, num_heads=4, d_ff=128, num_layers=2, decoder_start_token_id=0)
model = get_peft_model(T5ForConditionalGeneration(config), IA3Config(task_type=TaskType.SEQ_2_SEQ_LM)).cuda()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=8e-3)
for _ in range(3):
    model(
        input_ids=torch.randint(300, (4, 32), device="cuda"), labels=torch.randint(300, (4, 16), device="cuda")
    ).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
