"""What crosses a process border: requests, events, reports, Redis keys and scripts. Standard library only."""
