"""Benchmarks: ratios against peers, all in one run (`make bench`)."""
