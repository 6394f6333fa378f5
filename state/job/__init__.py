"""The state that belongs to no group: the job's own conditions, bad records, daily counts."""
