"""Exact conversions between SI base units and the prefixes people use. The core itself holds base units only."""

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12
KIB, MIB, GIB = 2.0**10, 2.0**20, 2.0**30
TERA = 1e12
MICRO = 1e-6
PJ_PER_BIT = 8e-12
"""One pJ/bit in J/B: a byte has eight bits."""
PJ = 1e-12
