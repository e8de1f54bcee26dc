"""Coop's own program, OneFlow's, decides as the policies *-oneflow do: on the same traces, row for row."""
