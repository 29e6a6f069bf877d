"""Speed of the package beside a plain reading of the paper: `make bench`, or `python -m benchmarks.speed --help`.

One command measures, on one thread and in CPU time, a reference that stacks graph copies and concatenates [x || y_t]
as the paper writes it, the package on the same weights and graph, and the products that neither can do without.
"""
