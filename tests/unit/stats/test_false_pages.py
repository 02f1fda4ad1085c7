"""Months of nights of a small world through the real decision: it rarely cries wolf, and it sees.

Everything by chance comes from fixed seeds, so the counts are the same on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.unit.stats.facts import CONSTANTS, conclude_with, gate, manifest, stamps
from watchkeeper.domain.facts import FactTable, TrialFact
from watchkeeper.domain.incident import Incident, IncidentRoot
from watchkeeper.domain.run import CaseStamp, Manifest
from watchkeeper.domain.verdict import Verdict
from watchkeeper.stats.baselines import (
    PastNight,
    accepted_nights,
    past_z_values,
    split_history,
)
from watchkeeper.stats.decide import Baseline, Decision, Night

CATEGORIES = {"alpha": 8, "beta": 8, "gamma": 8}
GATES = (gate("alpha", 0.70), gate("beta", 0.70), gate("gamma", 0.70))
UNCHANGED_NIGHTS = 40
BROKEN_FROM = 31


@dataclass(frozen=True)
class CaseNature:
    """What one case is like: how often it passes, and how many rounds it takes."""

    pass_chance: float
    log_rounds: float
    spread: float
    tool: str
    calls: int


@dataclass
class World:
    """Twenty-four cases in three categories, two tools, log-normal rounds and a few flaky cases."""

    seed: int
    tool_breaks_from: int | None = None
    cases: tuple[CaseStamp, ...] = field(init=False)
    natures: dict[str, CaseNature] = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(f"{self.seed}/cases")
        self.cases = stamps(CATEGORIES)
        self.natures = {}
        for stamp in self.cases:
            is_flaky = rng.random() < 0.2
            self.natures[stamp.case_id] = CaseNature(
                pass_chance=rng.uniform(0.6, 0.95) if is_flaky else rng.uniform(0.97, 1.0),
                log_rounds=rng.uniform(math.log(5), math.log(12)),
                spread=rng.uniform(0.15, 0.35),
                tool="find_files" if stamp.category == "alpha" else "read_file",
                calls=2,
            )

    def trials(
        self, of: Manifest, run_id: str, counts: Mapping[str, int] | None = None
    ) -> list[TrialFact]:
        """The trials of a run; a night and its rerun see the same world."""
        night = int(of.run_id.rpartition("-")[2])
        rng = random.Random(f"{self.seed}/{run_id}")
        facts: list[TrialFact] = []
        for stamp in of.cases:
            wanted = stamp.trials if counts is None else counts.get(stamp.case_id, 0)
            facts.extend(self._trial(stamp, night, run_id, index, rng) for index in range(wanted))
        return facts

    def _trial(
        self, stamp: CaseStamp, night: int, run_id: str, index: int, rng: random.Random
    ) -> TrialFact:
        nature = self.natures[stamp.case_id]
        rounds = math.exp(rng.gauss(nature.log_rounds, nature.spread))
        if rng.random() < 0.03:
            rounds *= rng.uniform(2, 4)
        calls = nature.calls
        is_broken = self.tool_breaks_from is not None and night >= self.tool_breaks_from
        if is_broken and nature.tool == "find_files":
            rounds += 8 - calls
            calls = 8
        count = max(1, round(rounds))
        return TrialFact(
            run_id=run_id,
            trial_id=f"{run_id}/{stamp.case_id}/{index}",
            case_id=stamp.case_id,
            trial_index=index,
            category=stamp.category,
            cluster_id=stamp.cluster_id,
            outcome="passed" if rng.random() < nature.pass_chance else "failed",
            execution_hash=stamp.execution_hash,
            grading_hash=stamp.grading_hash,
            round_count=count,
            barren_round_count=0,
            cost_usd=0.01 * count**1.2 * math.exp(rng.gauss(0, 0.05)),
            served_model="model-v1",
            tool_calls={nature.tool: calls},
        )


@dataclass
class Watch:
    """Night after night of one world, as the nightly job decides them."""

    world: World
    nights: list[PastNight] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    facts: dict[str, list[TrialFact]] = field(default_factory=dict)
    fresh_count: int = 0

    def night(self, number: int) -> Verdict:
        """The verdict of one night; every page of an unchanged night is called invalid."""
        of = manifest(number, self.world.cases, GATES)
        self.facts[of.run_id] = self.world.trials(of, of.run_id)
        accepted = accepted_nights(of, self.nights, self.incidents, CONSTANTS)
        split = split_history(accepted, CONSTANTS)
        decision = Decision(
            Night(
                manifest=of,
                facts=tuple(self.facts[of.run_id]),
                screening=self._side(split.screening),
                confirming=self._side(split.confirming),
                critical=(),
                past_z=past_z_values(split.accepted),
                constants=CONSTANTS,
            )
        )

        def rerun(batch: int, need: Mapping[str, int]) -> Sequence[TrialFact]:
            fresh = self.world.trials(of, f"{of.run_id}-confirm{batch}", need)
            self.fresh_count += len(fresh)
            return fresh

        verdict = conclude_with(decision, rerun)
        self.nights.append(PastNight(of, verdict))
        self.incidents.extend(_invalid(of, verdict, number) for number in range(len(verdict.roots)))
        return verdict

    def _side(self, nights: Sequence[PastNight]) -> Baseline:
        runs = tuple(one.manifest for one in nights)
        return Baseline(runs, FactTable(fact for run in runs for fact in self.facts[run.run_id]))


def _invalid(of: Manifest, verdict: Verdict, number: int) -> Incident:
    root = verdict.roots[number]
    return Incident(
        id=f"{of.run_id}-{number}",
        root=IncidentRoot(
            of.endpoint, of.suite, of.env, root.kind, root.name, root.owner, root.severity
        ),
        state="resolved",
        opened_at=verdict.decided_at,
        first_run=of.run_id,
        last_run=of.run_id,
        night_count=1,
        quiet_count=0,
        resolution="invalid",
        resolved_at=verdict.decided_at + timedelta(hours=1),
    )


@dataclass(frozen=True)
class Count:
    """What many nights of many worlds came to."""

    nights: int
    pages: int
    fresh_trials: int


def unchanged(seeds: Sequence[int]) -> Count:
    """The false pages of these worlds, in which nothing ever changes."""
    pages = fresh = 0
    for seed in seeds:
        watch = Watch(World(seed))
        for number in range(1, UNCHANGED_NIGHTS + 1):
            pages += len(watch.night(number).roots)
        fresh += watch.fresh_count
    return Count(len(seeds) * UNCHANGED_NIGHTS, pages, fresh)


@pytest.mark.slow
def test_unchanged_nights_page_rarely() -> None:
    """Twenty worlds of forty unchanged nights stay well inside the budget of one page in sixty.

    The budget allows 13 in 800 nights, and the procedure as simulated promises 3.5. Four are the
    most that is let pass; in sixty worlds (2,400 nights) there were three in all.
    """
    count = unchanged(range(20))
    assert count.pages <= 4, count
    night_trials = 3 * sum(CATEGORIES.values())
    assert count.fresh_trials <= 0.25 * count.nights * night_trials


@pytest.mark.slow
def test_nothing_is_judged_before_the_third_night() -> None:
    """The first two nights compare nothing and page nobody, the third compares."""
    watch = Watch(World(0))
    assert [len(watch.night(number).findings) for number in (1, 2)] == [0, 0]
    assert watch.night(3).findings


@pytest.mark.slow
def test_a_tool_that_breaks_is_paged_the_same_night() -> None:
    """One tool called eight times instead of twice from night 31: paged on night 31, every time."""
    seeds = range(100, 110)
    for seed in seeds:
        watch = Watch(World(seed, tool_breaks_from=BROKEN_FROM))
        for number in range(1, BROKEN_FROM):
            watch.night(number)
        verdict = watch.night(BROKEN_FROM)
        assert verdict.exit_code == 1, seed
        assert ("tool", "find_files") in {(one.kind, one.name) for one in verdict.roots}, seed
        shift = next(one for one in verdict.tool_shifts if one.tool == "find_files")
        assert (shift.calls_before, shift.calls_after) == (2.0, 8.0)
        assert regressed_groups(verdict, "pass_rate") == [], seed


def regressed_groups(verdict: Verdict, metric: str) -> list[str]:
    """The groups that a metric regressed in."""
    return [one.group for one in verdict.regressions if one.metric == metric]
