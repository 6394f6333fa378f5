"""Commands that help to repair what an event reports."""
