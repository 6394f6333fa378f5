"""The command line: flags to one dataclass per command, and a call."""
