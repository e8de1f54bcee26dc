"""Mixtures of experts, as they are written by hand: 512 tokens, each to 2 of 8 experts. Every expert gets its share."""

import torch
from torch.nn import functional as F  # noqa: N812

TOKENS, EXPERTS, TOP = 512, 8, 2
SHARE = TOKENS * TOP // EXPERTS
x = torch.randn(TOKENS, 32, device="cuda", requires_grad=True)
router = torch.nn.Linear(32, EXPERTS).cuda()
experts = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(EXPERTS)).cuda()
weights, chosen = torch.topk(router(x).softmax(-1), TOP)

# as Mixtral's in transformers: a one-hot mask with a class too many, the experts that are hit, their rows
mask = F.one_hot(chosen, num_classes=EXPERTS + 1).permute(2, 1, 0)
hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
out, rows = torch.zeros_like(x), []
for expert in hit:
    number = expert[0]
    if number == EXPERTS:
        continue
    place, token = torch.where(mask[number])
    rows.append(token.numel())
    out = out.index_add(0, token, experts[int(number)](x[token]) * weights[token, place, None])
assert rows == [SHARE] * EXPERTS, rows
out.sum().backward()

# compared with each number; with a guard
rows = []
for number in range(EXPERTS):
    here = (chosen == number).any(-1)
    if not here.any():
        continue
    rows.append((chosen == number).nonzero().shape[0])
assert rows == [SHARE] * EXPERTS, rows

# sorted by expert, split by counts that the host reads
counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
parts = x[chosen.flatten().argsort() // TOP].split(counts.tolist())
assert [len(part) for part in parts] == [SHARE] * EXPERTS
assert counts.cumsum(0).tolist() == [SHARE * (i + 1) for i in range(EXPERTS)]
scattered = chosen.new_zeros((TOKENS, EXPERTS))
scattered.scatter_(1, chosen, 1)
assert scattered.sum(0).cpu().tolist() == [SHARE] * EXPERTS

# gates that are zero but for the chosen experts
gates = torch.zeros(TOKENS, EXPERTS, device="cuda").scatter(1, chosen, weights.detach())
assert (gates > 0).sum(0).tolist() == [SHARE] * EXPERTS
assert torch.nonzero(gates).shape == (TOKENS * TOP, 2)

# one expert for each token; the choices themselves, on the host
first = router(x).argmax(-1)
assert [(first == i).sum().item() for i in range(EXPERTS)] == [TOKENS // EXPERTS] * EXPERTS
assert torch.bincount(chosen.cpu().flatten()).tolist() == [SHARE] * EXPERTS
