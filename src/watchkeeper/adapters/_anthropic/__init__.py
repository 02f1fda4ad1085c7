"""Anthropic's Messages API in both directions."""
