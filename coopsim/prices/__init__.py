"""What an op costs on a card: by its class, from the shares of the card's peak rates that such ops reach.

The shares were measured on an H100 (prices.toml); a card's own are used where they have been measured. Nothing here
imports torch.
"""

from coopsim.prices.call import Call
from coopsim.prices.tables import Table, table

__all__ = ["Call", "Table", "table"]
