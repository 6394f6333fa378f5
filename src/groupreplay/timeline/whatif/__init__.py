"""What the history of a group would have been with other settings: its inputs, their plays' costs, and the answer."""
