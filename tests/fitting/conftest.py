"""For pytest: what is no test here."""

#: These are programs for users' hands, not modules with doctests.
collect_ignore = ["scripts"]
