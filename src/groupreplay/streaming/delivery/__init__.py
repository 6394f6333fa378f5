"""Where events go beside the terminal: a receiver over HTTP, a file, the topics of ``run``. Each at least once."""
