"""Training: Algorithm 1 on partly labelled graphs, and the fully labelled case."""
