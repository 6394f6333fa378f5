"""The demo: a broker, real consumers and the job on one machine."""
