"""Flex attention with a window."""

import torch
from small import LENGTH, Block, Small, batches, loss_of
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def window(_batch, _head, q, k):
    return (q >= k) & (q - k < 64)


MASK = create_block_mask(window, None, None, LENGTH, LENGTH, device="cuda")


class Windowed(Block):
    def attention(self, q, k, v):
        return flex_attention(q, k, v, block_mask=MASK)


model = Small(Windowed).cuda()
optimizer = torch.optim.AdamW(model.parameters())
run = torch.compile(model)
for tokens in batches():
    loss_of(run(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
