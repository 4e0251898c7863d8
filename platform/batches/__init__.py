"""Message Batches: what customers ask for in bulk, and its results. `streaming.batches` runs them."""
