"""An agent that is a program, and the streams that such programs print."""
