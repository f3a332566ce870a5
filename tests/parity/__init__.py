"""Our encoder against other implementations of it."""
