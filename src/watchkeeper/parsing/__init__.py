"""Text files → checked values, every fault with its file and line."""
