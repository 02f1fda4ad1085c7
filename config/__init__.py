"""Starter files of a project folder; `watchkeeper init` copies them."""
