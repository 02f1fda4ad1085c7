"""MCP servers as programs: one that is in order, and one that is out of order as it is told."""
