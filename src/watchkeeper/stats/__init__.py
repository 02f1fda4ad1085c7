"""Numbers in, numbers out: intervals, tests, power, agreement; docs/statistics.md explains each.

Nothing is imported here, so that whoever only renders or lists pays for neither numpy nor scipy;
import the module that holds what you need, such as ``watchkeeper.stats.intervals``.
"""
