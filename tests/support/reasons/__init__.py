"""Why rebalances began: groups of every kind on brokers of several releases, and what was done to them."""
