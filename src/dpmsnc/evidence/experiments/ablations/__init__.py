"""Experiments that vary one choice of the method."""
