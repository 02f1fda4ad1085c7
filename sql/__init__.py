"""SQL of the store: schema, views, queries and checks, one statement a file."""
