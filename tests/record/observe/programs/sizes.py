"""Ops that take sizes from data: the shapes that they give, as JSON to the file that is named."""

import json
import sys

import torch

shapes = {}


def note(name, *results):
    shapes[name] = [list(r.shape) for r in results]


x = torch.rand(100, 6, device="cuda", requires_grad=True)
whole = (x.detach() * 9).long()
mask, wide = x.detach()[:, 0] > 0.5, x.detach() > 0.5
edges = (torch.rand(2, 5000, device="cuda") * 100).long()

note("mask", x[mask])
note("its inverse", x[~mask])
note("two dimensions", x[wide])
note("columns", x[:, mask[:6]])
note("with an index", x[mask, whole[:, 0][mask]])
note("masked_select", torch.masked_select(x, mask[:, None]))
note("nonzero", wide.nonzero(), torch.argwhere(x), *torch.where(mask))
note("self loops", edges[:, edges[0] != edges[1]])
note("unique", torch.unique(whole), *torch.unique(whole, return_inverse=True, return_counts=True))
note("unique rows", torch.unique(whole, dim=0), torch.unique_consecutive(whole))
note("bincount", torch.bincount(edges[0]), torch.bincount(edges[0], minlength=100))
note(
    "sparse",
    x.detach().to_sparse().values(),
    torch.sparse_coo_tensor(edges, edges[0].float(), (100, 100)).coalesce().values(),
)
note("split", *torch.arange(100, device="cuda").split(mask.view(4, 25).sum(1).tolist()) if mask.sum() == 100 else ())

y = x.detach().clone()
y[mask] = y[mask] * 2
y[wide] = 1.0
y[mask, 1] = whole[mask][:, 1].float()
y[:, mask[:6]] = torch.zeros(100, 1, device="cuda")
x[mask].sum().backward()
(x[wide] ** 2).sum().backward()
note("gradient", x.grad)

with open(sys.argv[1], "w") as file:
    json.dump(shapes, file)
