"""The checks that every token passes before it leaves the worker."""
