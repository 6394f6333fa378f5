"""Records applied to a group's snapshot, as Kafka's coordinator replays them; each change becomes facts."""
