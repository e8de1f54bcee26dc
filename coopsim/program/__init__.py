"""A trace as arrays, for what replays it and for what plans it: values, ops, uses, when each value goes."""
