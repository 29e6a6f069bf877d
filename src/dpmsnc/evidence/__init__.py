"""The evidence: experiments, the store of their runs, searches for settings, and tables beside the paper's figures.

The library never imports it; the command line does.
"""
