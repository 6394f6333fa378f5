"""What the job remembers about itself: rounds of its prober, heartbeats, and records that it could not read."""
