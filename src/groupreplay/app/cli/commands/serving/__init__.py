"""Commands that serve over HTTP what the job writes."""
