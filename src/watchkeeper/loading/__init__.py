"""config/ → domain: every file is parsed at the door, and every fault is found at once."""
