"""Tests of `explorer.model`."""
