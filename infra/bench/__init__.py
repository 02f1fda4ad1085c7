"""Watchkeeper beside other programs that run trials, on one machine and in one run."""
