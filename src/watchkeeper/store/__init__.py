"""Where records live: objects (a local folder or S3), and what is built on them."""
