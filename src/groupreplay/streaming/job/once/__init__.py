"""``run --once``: when a run that reads only what is there has done so, and what it says at its end."""
