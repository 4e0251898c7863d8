"""Tests of `slo`."""
