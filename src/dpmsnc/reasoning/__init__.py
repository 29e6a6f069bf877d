"""Algorithmic reasoning on graphs whose edges carry the answer (paper, section 6.2 and appendix D.3)."""
