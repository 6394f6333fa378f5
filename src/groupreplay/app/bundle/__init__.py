"""``groupreplay bundle``: groupreplay and its libraries as one archive for ``spark-submit``."""
