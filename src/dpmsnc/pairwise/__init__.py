"""A pairwise model of labels on a graph: potentials, loopy belief propagation, and Gibbs sampling."""
