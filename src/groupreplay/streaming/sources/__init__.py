"""Where records come from: captures, a live topic. One module a kind; ``source`` has what all of them are."""
