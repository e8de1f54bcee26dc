"""Stands in PyTorch's dispatcher, below autograd, so that what runs is what runs unwatched.

While a dispatch mode is active, autograd's formulas avoid to work in place: they may not know whether the mode keeps a
tensor (at::areAnyTensorSubclassLike). So recorders are called by a kernel of ours instead of as modes.
"""
