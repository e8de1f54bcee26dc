"""What each verb takes on the command line. Only the standard library, as `coopsim --help` must answer at once."""
