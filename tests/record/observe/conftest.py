"""For pytest: what is no test here."""

#: These are programs for children, not modules with doctests.
collect_ignore = ["programs"]
