"""Tests: unit, contracts, sql, flows, e2e, layout, benchmarks; servers are the local peers."""
