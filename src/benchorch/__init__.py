"""Which conversion of a PyTorch model serves it fastest, and is it still the same model?"""

__version__ = "0.1.0"
