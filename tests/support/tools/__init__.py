"""External tools (Prometheus, Maven, fuzzers) and checks of the project's own files."""
