"""The team's own agent behind a URL."""
