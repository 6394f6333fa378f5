"""One module per command: its flags, a frozen dataclass of their values, and the call that does the work."""
