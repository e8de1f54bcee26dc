"""What is known of the device's data on the phantom GPU, where no kernel runs, and what is assumed of the rest.

Some values follow from what the host has given (known.py). Of others it is known how many are of a kind, as a router's
choices are (shares.py). Sizes that ops take from data (sizes.py), and how a script branches on them (decisions.py),
follow from these, or else from what is said of masks (masks.py).
"""
