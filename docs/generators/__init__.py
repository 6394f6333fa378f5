"""Generated pages of ``docs/`` and ``deploy/``; one module each, run by ``docs/refresh.py``."""
