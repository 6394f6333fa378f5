"""Everything that can be reported about a group or the job, as frozen dataclasses with their fields and names."""
