"""Tests of `explorer.weights`."""
