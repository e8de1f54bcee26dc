"""The flags of each verb. Imports the standard library only, as `coopsim --help` must answer at once."""
