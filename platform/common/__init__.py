"""What every app uses: errors, ids, Redis."""
