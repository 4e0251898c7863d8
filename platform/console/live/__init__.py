"""What is open now, as Redis has it."""
