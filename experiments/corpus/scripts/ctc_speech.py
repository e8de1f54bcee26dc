"""Speech recognition: spectra, a bidirectional GRU, CTC with lengths on the host."""

import torch
from torch import nn

conv = nn.Sequential(nn.Conv1d(80, 64, 5, 2, 2), nn.GELU()).cuda()
rnn, head = nn.GRU(64, 64, bidirectional=True, batch_first=True).cuda(), nn.Linear(128, 30).cuda()
optimizer = torch.optim.AdamW([*conv.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(3):
    x = conv(torch.randn(4, 80, 200, device="cuda")).transpose(1, 2)
    logs = head(rnn(x)[0]).log_softmax(2).transpose(0, 1)
    targets = torch.randint(1, 30, (4, 20))
    loss = nn.functional.ctc_loss(logs, targets.cuda(), torch.full((4,), 100), torch.full((4,), 20))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
