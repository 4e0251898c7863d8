"""English, of every country."""
