"""Watchkeeper asks every night whether an agent got worse, and tells who must know."""

__version__ = "0.1.0"
