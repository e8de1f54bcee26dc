"""nn.Transformer for translation, Noam's schedule, label smoothing, masks for padding."""

import torch
from torch import nn

model = nn.Transformer(64, 4, 2, 2, 128, batch_first=True).cuda()
words, head = nn.Embedding(300, 64, padding_idx=0).cuda(), nn.Linear(64, 300).cuda()
optimizer = torch.optim.Adam([*model.parameters(), *words.parameters(), *head.parameters()], betas=(0.9, 0.98))
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) ** -0.5, (n + 1) * 400**-1.5))
criterion = nn.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
for _ in range(3):
    source, target = torch.randint(1, 300, (8, 20)).cuda(), torch.randint(1, 300, (8, 17)).cuda()
    source[:, 15:] = 0
    causal = model.generate_square_subsequent_mask(16, device="cuda")
    out = model(
        words(source), words(target[:, :-1]), tgt_mask=causal, src_key_padding_mask=source == 0, tgt_is_causal=True
    )
    loss = criterion(head(out).flatten(0, 1), target[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
