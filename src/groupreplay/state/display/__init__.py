"""Text for people: unsafe characters escaped, and the phrases that events share."""
