"""hcio: runs storage workloads on hyper-converged clusters and tells the truth about the result."""

__version__ = "0.1.0"
