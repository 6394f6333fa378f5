"""What a recorded group would have done with other settings: the question, the plays of the model, and the answer."""
