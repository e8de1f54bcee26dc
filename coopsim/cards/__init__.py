"""What is known of a card, with sources: profiles, card files, its context, prices of ops, its link to the host."""
