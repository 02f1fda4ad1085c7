"""An agent that is a callable, in a process of its own."""
