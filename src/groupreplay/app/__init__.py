"""What a person starts or reads: the command line, reports, live pages, metrics, the demo.

Start reading in ``cli.program``.
"""
