"""Measures attention kinds as the sequence grows: time, its growth, and peak memory.

A point is a kind at a length: one layer with its projections, self-attention, float32, no mask and no positions. Each
point has a process of its own, so that its memory is its alone. Kinds take turns at each length, and that several
times over: a machine that is slow for a while is then slow for all of them.
"""

from zoo.bench.compare import bench, growth, parse_kind, split_kinds
from zoo.bench.point import Settings, make_step, measure

__all__ = ["Settings", "bench", "growth", "make_step", "measure", "parse_kind", "split_kinds"]
