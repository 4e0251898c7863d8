"""Safety policies and blocklists: what is checked, whoever sends it."""
