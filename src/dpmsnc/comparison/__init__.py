"""Which method to trust on a graph: all of them at their defaults on repeated splits of its known labels."""
