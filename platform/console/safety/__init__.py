"""What safety checks found lately."""
