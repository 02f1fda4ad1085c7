"""Whole commands against a yardstick of the same run; ``make bench`` prints the ratios."""
