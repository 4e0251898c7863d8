"""GPU workers: engines, detokenising, safety and the worker loop. Knows nothing of Django."""
