"""Measure a card: its context, prices of ops, workspaces, link, addresses and host, into one small file.

Measurements are made in child processes, of `measure`, which alone imports torch; a journal beside the file keeps what
has been measured, so that the same command goes on after an interruption.
"""
