"""What earlier releases have stored: states, layouts, conditions, whole checkpoints."""
