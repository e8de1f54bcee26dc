"""A character LSTM with truncated backpropagation through time."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(64, 64)
        self.rnn = nn.LSTM(64, 128, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(128, 64)

    def forward(self, ids, state=None):
        out, state = self.rnn(self.words(ids), state)
        return self.head(out), state


model = Model().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
text = torch.randint(64, (16, 4 * 32 + 1))
state = None
for begin in range(0, 4 * 32, 32):
    x, y = text[:, begin : begin + 32].cuda(), text[:, begin + 1 : begin + 33].cuda()
    out, state = model(x, state)
    state = tuple(s.detach() for s in state)
    optimizer.zero_grad()
    nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()).backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
