"""What the events of a group say, each fact decided once: gaps of the log, trouble, how members ended."""
