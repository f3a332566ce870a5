"""Measurements of the engine. They print tables and judge nothing."""
