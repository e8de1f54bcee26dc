"""What leaves memory to be made again: the cheapest cut, the shape of checkpointing, the greedy choice, its pruning."""
