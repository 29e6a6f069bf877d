"""Runs of experiments: what is run, where, and how it is stored."""
