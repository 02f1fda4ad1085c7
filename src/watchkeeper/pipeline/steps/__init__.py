"""The steps: one effect a file, each a function of the parts that it works with."""
