"""Running the requests of batches: the path of a posted message, at batch priority, with nobody who waits for it."""
