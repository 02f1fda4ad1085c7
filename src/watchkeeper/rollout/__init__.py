"""Case + endpoint → trajectory, within limits, each finished trial written down at once."""
