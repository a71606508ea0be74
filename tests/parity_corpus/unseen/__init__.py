"""Cases that judge whether a conversion is still the same model."""
