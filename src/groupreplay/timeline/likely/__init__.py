"""What is likely where records prove bounds only: begins of rebalances, what an assignor moves, and their sums."""
