"""Records as people read them: which ones, decoded, with what is inside of them."""
