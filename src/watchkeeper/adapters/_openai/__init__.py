"""OpenAI's two APIs in both directions."""
