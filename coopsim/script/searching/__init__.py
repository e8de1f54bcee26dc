"""Searches over runs of a script: for the smallest memory and the largest batch with which it trains."""
