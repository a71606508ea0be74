"""Changes to a project that must, must not or may not leave its cached builds in use."""
