"""Objectives and what is measured of them: by minute, mergeable, kept for as long as records are."""
