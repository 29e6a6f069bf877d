"""Experiments: one module per table or figure, a store of what was run, and a runner that runs what is missing."""
