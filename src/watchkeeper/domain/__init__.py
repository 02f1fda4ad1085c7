"""Frozen types of the field: what is tested, what happened, what was concluded, and the ports.

Nothing here imports anything else of the project or does any I/O.
"""
