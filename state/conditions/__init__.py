"""What holds for a while: detectors that find it, and the tracker that reports its beginning and end."""
