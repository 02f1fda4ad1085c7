"""The order of things, written once and handed its steps; it has never heard of Prefect."""
