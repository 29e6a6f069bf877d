"""Joint label prediction on partially labelled graphs with diffusion models."""

__version__ = "0.1.0"
