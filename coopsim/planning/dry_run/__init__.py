"""An iteration gone through by given decisions, without addresses: what it costs, holds and asks for."""
