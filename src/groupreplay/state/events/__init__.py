"""The events about a group or the job: frozen dataclasses with their names and fields."""
