"""What the operator decides: thresholds, severities, labels and redaction, and the constants of one run."""
