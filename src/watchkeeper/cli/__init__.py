"""The top floor: commands that people and scripts call. Heavy parts are loaded by commands."""
