"""Real nights through Prefect: a real server, the scripted agent, DuckDB and Parquet."""

import watchkeeper.flows  # noqa: F401 - sets Prefect's surroundings before any test imports it
