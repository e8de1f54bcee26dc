"""Masks of which nothing is known, brought to the host in the ways that decoding does: lengths, as JSON to a file."""

import json
import sys

import torch

B, L, EOS, PAD = 4, 8, 2, 3
ids = (torch.rand(B, L, device="cuda") * 100).long()
found = {}


def rows(texts):
    return [len(text) for text in texts]


# As TRL's GRPO trainer does: everything after the first end is masked.
is_end = torch.isin(ids, torch.tensor([EOS], device="cuda"))
first = torch.full((B,), L, dtype=torch.long, device="cuda")
first[is_end.any(dim=1)] = is_end.int().argmax(dim=1)[is_end.any(dim=1)]
mask = (torch.arange(L, device="cuda").expand(B, -1) <= first[:, None]).int()
found["bool().cpu()"] = rows(i[m].tolist() for i, m in zip(ids.cpu(), mask.bool().cpu(), strict=True))
found["numpy"] = rows(i[m] for i, m in zip(ids.cpu().numpy(), mask.bool().cpu().numpy(), strict=True))

attention = (ids != PAD).long()
pairs = zip(ids.tolist(), attention.tolist(), strict=True)
found["tolist"] = rows([token for token, keep in zip(*pair, strict=True) if keep] for pair in pairs)
prompted = torch.cat([torch.ones(B, 2, dtype=torch.long, device="cuda"), attention], dim=1)
found["with the prompt's"] = [sum(row) for row in prompted.cpu().tolist()]
found["one minus"] = [sum(row) for row in (1 - attention).tolist()]
found["sum"] = rows(i[:n] for i, n in zip(ids.cpu(), (ids != PAD).sum(1).tolist(), strict=True))
found["sum of integers"] = rows(i[:n] for i, n in zip(ids.cpu(), attention.sum(-1).tolist(), strict=True))
found["longest"] = [int(attention.sum(1).max())]
found["argmax"] = rows(i[: n + 1] for i, n in zip(ids.cpu(), (ids == EOS).int().argmax(1).tolist(), strict=True))
kept = torch.empty(B, L, dtype=torch.bool, pin_memory=True).copy_(ids != PAD, non_blocking=True)
found["pinned"] = kept.sum(1).tolist()
keep = ids[0] != PAD
chosen = []
for i in range(L):
    if keep[i]:
        chosen.append(i)
found["element by element"] = [len(chosen)]
found["items"] = [sum(keep[i].item() for i in range(L))]

# Flags that the script waits for are no masks: it goes on.
done = torch.zeros(B, dtype=torch.bool, device="cuda")
steps = 0
for _ in range(20):
    steps += 1
    done = done | (torch.rand(B, device="cuda") > 0.5)
    if all(done.tolist()):
        break
finished = torch.rand(B, device="cuda") > 0.5
for _ in range(20):
    steps += 1
    flags = finished.cpu()
    if flags.all():
        break
active = torch.rand(B, device="cuda") > 0.5
while active.cpu().any():
    steps += 1
found["steps"] = [steps]
bad = torch.rand(B, device="cuda") > 0.5
if bad.cpu().any():
    raise ValueError("one of them is bad")

with open(sys.argv[1], "w") as file:
    json.dump(found, file)
