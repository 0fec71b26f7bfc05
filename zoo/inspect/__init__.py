"""Looking into a trained model."""
