"""Tests of Encoder Explorer. The folders mirror `explorer/` and `components/`."""
