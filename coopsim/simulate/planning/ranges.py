"""Sums and maxima over ranges of ops without a look at each op: a binary tree over numbers, a row per node."""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel

SUM, COUNT, LEAST, MOST = range(4)  # of the positive numbers below a node: their sum, how many, the least; and the most
_NONE = 1 << 62


def new_ranges(n: int) -> s.Array:
    """Room for n numbers."""
    tree = np.zeros((2 << max(n - 1, 1).bit_length(), 4), np.int64)
    tree[:, LEAST] = _NONE
    return tree


@kernel
def fill(tree: s.Array, numbers: s.Array, first: int, last: int) -> None:
    """The numbers from `first` to before `last`; queries about others are wrong until they are filled in, too."""
    leaves = len(tree) >> 1
    for k in range(first, last):
        node, number = leaves + k, max(numbers[k], 0)
        tree[node, SUM] = tree[node, MOST] = number
        tree[node, COUNT] = number > 0
        tree[node, LEAST] = number if number > 0 else _NONE
    a, b = leaves + first, leaves + last - 1
    while a > 1:
        a, b = a >> 1, b >> 1
        for node in range(a, b + 1):
            one, other = 2 * node, 2 * node + 1
            tree[node, SUM] = tree[one, SUM] + tree[other, SUM]
            tree[node, COUNT] = tree[one, COUNT] + tree[other, COUNT]
            tree[node, LEAST] = min(tree[one, LEAST], tree[other, LEAST])
            tree[node, MOST] = max(tree[one, MOST], tree[other, MOST])


@kernel
def most(tree: s.Array, first: int, last: int) -> int:
    """The largest of the numbers from `first` to before `last`; 0 if none is larger."""
    a, b, found = (len(tree) >> 1) + first, (len(tree) >> 1) + last, 0
    while a < b:
        if a & 1:
            found = max(found, tree[a, MOST])
            a += 1
        if b & 1:
            b -= 1
            found = max(found, tree[b, MOST])
        a, b = a >> 1, b >> 1
    return found


@kernel
def sum_up_to(tree: s.Array, first: int, last: int, limit: int) -> int:
    """The sum of the positive ones from `first` to before `last`, of each as much as `limit`."""
    a, b, total = (len(tree) >> 1) + first, (len(tree) >> 1) + last, 0
    while a < b:
        if a & 1:
            total += _below(tree, a, limit)
            a += 1
        if b & 1:
            b -= 1
            total += _below(tree, b, limit)
        a, b = a >> 1, b >> 1
    return total


@inlined
def _below(tree: s.Array, top: int, limit: int) -> int:
    """The same for what is below a node: depth first, from left to right."""
    node, total = top, 0
    while True:
        known = True
        if tree[node, MOST] <= limit:
            total += tree[node, SUM]
        elif tree[node, LEAST] >= limit:
            total += limit * tree[node, COUNT]
        else:
            known = False
        if known:
            while node != top and node & 1:
                node >>= 1
            if node == top:
                return total
            node += 1
        else:
            node *= 2
