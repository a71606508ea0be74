"""Weights kept on disk in half precision, widened again when they are loaded."""
