"""Tests of `explorer.stats`."""
