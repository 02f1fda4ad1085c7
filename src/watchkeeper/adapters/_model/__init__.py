"""What every kind has in common that is a model behind a provider's API."""
