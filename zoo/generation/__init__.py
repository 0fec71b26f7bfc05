"""Decoding: from a trained model and a source to tokens."""
