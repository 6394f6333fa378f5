"""What the pages need from the offsets topic itself: lanes of one group, and who commits."""
