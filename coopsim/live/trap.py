"""The text of the error that reading an evicted tensor raises."""

TRAP = "coopsim: evicted"  #: how it begins
TEXT = f"{TRAP}: something reads a tensor that was evicted, and did not ask for it"
