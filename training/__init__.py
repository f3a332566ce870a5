"""How the Pre-LN twin of all-MiniLM-L6-v2 was made. `python -m training --help` says what can be asked for."""
