"""The job, captures, and what the job writes."""
