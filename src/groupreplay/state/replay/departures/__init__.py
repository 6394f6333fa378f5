"""Members that left: why, and whether anybody had planned it."""
