"""The top floor: commands that people and scripts call. Heavy parts are loaded by commands."""

import gc

# Modules are not garbage: looking for some every 700 objects while they load would take a tenth
# of a short command's time.
gc.set_threshold(20_000)
