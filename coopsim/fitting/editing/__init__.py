"""Edits of the user's files, made where a place is certain: calls, loops, patches, and copies of a script that run."""
