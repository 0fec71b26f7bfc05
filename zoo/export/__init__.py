"""Trained models for use without this package."""
