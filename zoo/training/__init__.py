"""Training, the run directory, evaluation."""
