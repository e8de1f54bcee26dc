"""Encoder and decoder of GRUs with additive attention, teacher forcing, packed sequences."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WIDTH, VOCAB = 64, 200


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.score, self.head = nn.Linear(2 * WIDTH, 1), nn.Linear(WIDTH, VOCAB)

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(self.words(source), lengths, batch_first=True, enforce_sorted=False)
        out, state = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True)
        state, logits = state[0], []
        for t in range(target.shape[1] - 1):
            query = state[:, None].expand_as(memory)
            weights = self.score(torch.cat((memory, query), -1)).softmax(1)
            context = (weights * memory).sum(1)
            state = self.cell(torch.cat((self.words(target[:, t]), context), -1), state)
            logits.append(self.head(state))
        return torch.stack(logits, 1)


model = Translator().cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    source, target = torch.randint(VOCAB, (8, 12), device="cuda"), torch.randint(VOCAB, (8, 9), device="cuda")
    logits = model(source, torch.tensor([12, 11, 10, 9, 8, 7, 6, 5]), target)
    nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0).backward()
    optimizer.step()
    optimizer.zero_grad()
