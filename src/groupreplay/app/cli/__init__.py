"""The command line: the program, its flags, and one module per command."""
