"""The commands that a page and a report name, quoted so that they can be pasted as they are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

MOST_CASES = 5


@dataclass(frozen=True, slots=True)
class Commands:
    """How ``watchkeeper`` is called here; ``project`` is the folder where it is not the default."""

    project: str | None = None

    def diff(self, run_id: str, against: str | None = None) -> str:
        """Shows the comparison of a run again, with its own baselines unless told otherwise."""
        other = ("--against", against) if against else ()
        return self._command("diff", run_id, *other)

    def run(self, suite: str, endpoint: str, cases: Sequence[str] = ()) -> str:
        """Runs these cases again now, or the whole suite; of many cases the first five."""
        chosen = [word for case in cases[:MOST_CASES] for word in ("--case", case)]
        return self._command("run", suite, "-e", endpoint, *chosen)

    def show(self, incident_id: str) -> str:
        """Shows an incident with its history."""
        return self._command("incidents", "show", incident_id)

    def acknowledge(self, incident_id: str) -> str:
        """Tells the others that somebody has taken the incident."""
        return self._command("incidents", "ack", incident_id)

    def nightly(self) -> str:
        """Runs everything that is due; each night adds to the history."""
        return self._command("nightly")

    def doctor(self) -> str:
        """Checks keys, endpoints and the store."""
        return self._command("doctor")

    def baseline(self, suite: str, endpoint: str) -> str:
        """Shows which nights runs are held against."""
        return self._command("baseline", "show", suite, "-e", endpoint)

    def _command(self, *words: str) -> str:
        project = ["--project", self.project] if self.project else []
        return shlex.join(["watchkeeper", *words, *project])
