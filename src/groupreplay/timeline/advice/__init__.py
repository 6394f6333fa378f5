"""Which setting would have saved a group something, by its own history; and what its deployments cost."""
