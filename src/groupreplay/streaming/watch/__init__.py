"""The engine of this process on a live cluster: reads, asks and remembers, and writes nothing to the cluster."""
