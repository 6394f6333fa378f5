"""Tools of others: Prometheus, Maven, fuzzers."""
