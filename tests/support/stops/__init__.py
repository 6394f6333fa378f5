"""Groups that stop for a known time while records of known times are written, and what is reported of it."""
