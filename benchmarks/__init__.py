"""Benchmarks: what the optimizer costs and how it converges, measured beside others."""
