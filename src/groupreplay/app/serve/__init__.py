"""Pages, an API and a history of events over HTTP, from the job's topics."""
