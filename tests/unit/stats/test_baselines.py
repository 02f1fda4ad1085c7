"""Which nights a run is held against, and on which of the two sides each stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.stats.facts import CONSTANTS, manifest, past, stamps
from watchkeeper.domain.incident import Incident, IncidentRoot, Resolution
from watchkeeper.domain.run import OutcomeCounts
from watchkeeper.domain.verdict import Finding, Measured
from watchkeeper.stats.baselines import (
    PastNight,
    accepted_nights,
    past_z_values,
    split_history,
)

CASES = stamps({"facts": 2})


def nights(count: int, **changed: dict[str, Any]) -> list[PastNight]:
    """Quiet nights 1 to ``count``; ``n3={…}`` changes fields of the third night's verdict."""
    return [
        past(manifest(number, CASES), **changed.get(f"n{number}", {}))
        for number in range(1, count + 1)
    ]


def numbers(accepted: Sequence[PastNight]) -> list[int]:
    """The numbers of some nights."""
    return [int(one.manifest.run_id.rpartition("-")[2]) for one in accepted]


def accepted(
    before: Sequence[PastNight], incidents: Sequence[Incident] = (), candidate: int = 0
) -> list[int]:
    """The numbers of the nights that count for the candidate, the next night by default."""
    of = manifest(candidate or len(before) + 1, CASES)
    return numbers(accepted_nights(of, before, incidents, CONSTANTS))


def decided_at(number: int) -> datetime:
    """When the verdict of a night was reached."""
    verdict = past(manifest(number, CASES)).verdict
    assert verdict is not None
    return verdict.decided_at


def incident(
    opened: int,
    resolved: int | None = None,
    resolution: Resolution | None = None,
    **root: Any,
) -> Incident:
    """An incident that a night opened and, where given, something between two nights ended."""
    fields: dict[str, Any] = {
        "endpoint": "agent",
        "suite": "basic",
        "env": "production",
        "kind": "category",
        "name": "facts",
        "owner": "owner",
        "severity": "page",
    }
    return Incident(
        id=f"inc-{opened}-{root}",
        root=IncidentRoot(**{**fields, **root}),
        state="open" if resolution is None else "resolved",
        opened_at=decided_at(opened),
        first_run=f"night-{opened:03}",
        last_run=f"night-{opened:03}",
        night_count=1,
        quiet_count=0,
        resolution=resolution,
        resolved_at=None if resolved is None else decided_at(resolved) + timedelta(hours=3),
    )


REGRESSED: dict[str, Any] = {"state": "regressed", "reason": "confirmed"}


class TestAccepted:
    """Which nights count."""

    def test_quiet_nights_do(self) -> None:
        """Every quiet night before the candidate counts, oldest first, in any order of arrival."""
        assert accepted(nights(5)) == [1, 2, 3, 4, 5]
        assert accepted(list(reversed(nights(5)))) == [1, 2, 3, 4, 5]

    def test_neither_itself_nor_what_came_later(self) -> None:
        """A night that is decided again is never held against itself or its future."""
        assert accepted(nights(5), candidate=3) == [1, 2]

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"broken": "only 3 of 6 were graded"}, "broken"),
            ({"counts": OutcomeCounts(planned=100, passed=89)}, "coverage below 90 %"),
            ({"counts": OutcomeCounts(planned=0)}, "nothing planned"),
            (REGRESSED, "a regression"),
        ],
    )
    def test_a_bad_night_does_not(self, changed: dict[str, Any], why: str) -> None:
        """A night that was broken, thin or worse is no baseline for any other."""
        assert accepted(nights(4, n2=changed)) == [1, 3, 4], why

    def test_ninety_per_cent_are_enough(self) -> None:
        """Coverage of exactly 90 % is accepted."""
        counts = OutcomeCounts(planned=100, passed=90)
        assert accepted(nights(3, n2={"counts": counts})) == [1, 2, 3]

    def test_a_night_without_a_verdict_does_not(self) -> None:
        """What was never decided vouches for nothing."""
        before = nights(3)
        before[1] = PastNight(before[1].manifest, None)
        assert accepted(before) == [1, 3]

    @pytest.mark.parametrize(
        "purpose", ["on_demand", "ci", "version_change", "migration", "confirm"]
    )
    def test_other_purposes_do_not(self, purpose: Any) -> None:
        """Only nightly runs enter a baseline, whatever else was run between them."""
        before = nights(3)
        before[1] = past(manifest(2, CASES, purpose=purpose, slot_at=None))
        assert accepted(before) == [1, 3]

    def test_other_endpoints_and_suites_do_not(self) -> None:
        """A night of another endpoint or another suite is no baseline here."""
        before = nights(3)
        before[0] = past(manifest(1, CASES, endpoint="other"))
        before[1] = past(manifest(2, CASES, suite="other"))
        assert accepted(before) == [3]

    def test_improved_and_inconclusive_nights_do(self) -> None:
        """A better night is part of history like any other."""
        changed = {"state": "improved", "reason": "both_baselines"}
        suspect = {"state": "inconclusive", "reason": "suspect"}
        assert accepted(nights(3, n2=changed, n3=suspect)) == [1, 2, 3]


class TestIncidents:
    """What stood open, and what people said of it."""

    def test_nights_under_an_open_incident_do_not_count(self) -> None:
        """From the night that opened it on, quiet ones included, until it is resolved."""
        before = nights(8, n4=REGRESSED)
        assert accepted(before, [incident(4)]) == [1, 2, 3]

    def test_nights_after_a_recovery_do(self) -> None:
        """The nights of the incident stay out for good, the night after it is in."""
        before = nights(9, n4=REGRESSED)
        assert accepted(before, [incident(4, 7, "recovered")]) == [1, 2, 3, 8, 9]

    def test_an_incident_of_another_pair_changes_nothing(self) -> None:
        """Each endpoint and suite has its own history."""
        others = [incident(2, endpoint="other"), incident(2, suite="other")]
        assert accepted(nights(4), others) == [1, 2, 3, 4]

    def test_a_broken_evaluation_is_no_regression(self) -> None:
        """An open incident of the harness keeps no sound night out."""
        harness = incident(2, kind="harness", name="agent", severity="broken")
        assert accepted(nights(4), [harness]) == [1, 2, 3, 4]

    def test_accepted_is_the_new_level(self) -> None:
        """After a person accepted the change, nights before it count no more and those since do."""
        before = nights(7, n4=REGRESSED, n5=REGRESSED)
        assert accepted(before, [incident(4, 6, "accepted")]) == [4, 5, 6, 7]

    def test_the_newest_acceptance_holds(self) -> None:
        """Of two accepted changes the later one begins the baseline."""
        before = nights(9, n3=REGRESSED, n7=REGRESSED)
        said = [incident(3, 4, "accepted"), incident(7, 8, "accepted", name="tone")]
        assert accepted(before, said) == [7, 8, 9]

    def test_invalid_changes_nothing(self) -> None:
        """A false page costs no night of history: all of them count, the paged one too."""
        before = nights(7, n4=REGRESSED)
        assert accepted(before, [incident(4, 5, "invalid")]) == [1, 2, 3, 4, 5, 6, 7]

    def test_one_of_two_declared_invalid(self) -> None:
        """While the other root of the same night stands open its nights do not count."""
        before = nights(6, n4=REGRESSED)
        said = [incident(4, 5, "invalid"), incident(4, name="tone")]
        assert accepted(before, said) == [1, 2, 3]

    def test_a_later_regression_is_not_excused_by_an_earlier_word(self) -> None:
        """An invalid incident of night 3 says nothing of the regression of night 6."""
        before = nights(7, n3=REGRESSED, n6=REGRESSED)
        assert accepted(before, [incident(3, 4, "invalid")]) == [1, 2, 3, 4, 5, 7]


class TestSplit:
    """Two disjoint sides."""

    def split(self, count: int) -> tuple[list[int], list[int]]:
        """The sides of the first so many quiet nights: screening, confirming."""
        of = accepted_nights(manifest(count + 1, CASES), nights(count), (), CONSTANTS)
        split = split_history(of, CONSTANTS)
        assert numbers(split.accepted) == sorted(numbers((*split.screening, *split.confirming)))
        return numbers(split.screening), numbers(split.confirming)

    def test_nothing_is_compared_on_the_first_two_nights(self) -> None:
        """No accepted night, or one, is no history: both sides are empty."""
        assert self.split(0) == ([], [])
        assert self.split(1) == ([], [])

    def test_from_the_third_night_on(self) -> None:
        """Night 3 has one night on each side: the second screens, the first confirms."""
        assert self.split(2) == ([2], [1])
        assert self.split(3) == ([2], [1, 3])
        assert self.split(6) == ([2, 4, 6], [1, 3, 5])

    def test_a_night_keeps_its_side_for_good(self) -> None:
        """However long history grows, no night ever changes sides, and the sides share none."""
        sides: dict[int, str] = {}
        for count in range(2, 70):
            screening, confirming = self.split(count)
            assert not set(screening) & set(confirming)
            for side, members in (("screens", screening), ("confirms", confirming)):
                for number in members:
                    assert sides.setdefault(number, side) == side

    def test_only_the_newest_nights(self) -> None:
        """At most 21 nights, the newest, ten or eleven on each side."""
        screening, confirming = self.split(40)
        assert sorted(screening + confirming) == list(range(20, 41))
        assert {len(screening), len(confirming)} == {10, 11}

    def test_how_many_is_a_constant(self) -> None:
        """A project may ask for more nights before anything is compared, or for a longer memory."""
        four = replace(CONSTANTS, first_verdict_history=4, history_nights=4)
        assert split_history(nights(3), four).accepted == ()
        assert numbers(split_history(nights(9), four).accepted) == [6, 7, 8, 9]

    def test_a_night_that_is_left_out_moves_nobody(self) -> None:
        """A broken night takes no place, so the nights before it stay where they are."""
        before = nights(6, n4={"broken": "outage"})
        split = split_history(accepted_nights(manifest(7, CASES), before, (), CONSTANTS), CONSTANTS)
        assert numbers(split.screening) == [2, 5]
        assert numbers(split.confirming) == [1, 3, 6]


def test_past_z_values_are_those_of_groups() -> None:
    """Phi learns from the night's z of suites, categories and tools, oldest night first."""
    measured = Measured(1.0, 0.9, 1.1, 0.5, 0.3, 0.7, 2, 6, 6, 4.0, 4.0, 0.1)

    def finding(level: Any, group: str, z: float) -> Finding:
        return Finding(
            "rounds", level, group, "inconclusive", "within_noise", 0.1, replace(measured, z=z)
        )

    first = (finding("suite", "suite", 1.0), finding("case", "facts-00", 9.0))
    second = (
        finding("suite", "suite", 2.0),
        finding("category", "a", 3.0),
        finding("category", "b", -1.0),
        replace(finding("tool", "t", 5.0), screened=None),
    )
    before = nights(3, n1={"findings": first}, n2={"findings": second})
    assert past_z_values(before) == {
        "rounds/suite": [[1.0], [2.0]],
        "rounds/category": [[3.0, -1.0]],
    }
