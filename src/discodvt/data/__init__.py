"""From corpus rows to batches: tokens, EDU spans over them, an order that is a pure function of the seed, collation."""
