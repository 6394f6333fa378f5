"""The command ``check``: everything the job needs, tested before it starts."""
