"""Raw records of the log to one row for each group: keys, commits, times and folded runs."""
