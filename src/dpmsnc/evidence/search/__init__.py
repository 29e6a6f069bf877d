"""Searches for settings on validation labels, and the files they write."""
