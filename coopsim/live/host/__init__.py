"""Copies to the host and back: where they lie, the engines that make them, and what is sent without a plan."""
