"""What is measured, side by side: every contestant in turn, so often, and the medians."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.bench.contestants import Contestant, Job
from infra.bench.processes import Command, CommandFailed, Cost, model_server, run

CONCURRENCY = 100
ROUNDS = 3
CASE_REPEATS = 5
RATE_LIMITED = 0.10
OVERLOADED = 0.05


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is done; the numbers of the goals by default."""

    latency_s: float = 1.0
    latency_trials: int = 1000
    one_round_trials: int = 3000
    agent_trials: int = 1000
    many_trials: int = 50_000
    times: int = 3


SMALL = Sizes(0.2, 250, 500, 200, 2000, 1)


@dataclass(slots=True)
class Table:
    """One scenario's results: a row a contestant, in the order of the columns."""

    title: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Taken:
    """One command's cost with what the model saw of it."""

    cost: Cost
    asked: int
    first_s: float


Tell = Callable[[str], None]


def latency_table(who: Sequence[Contestant], sizes: Sizes, tell: Tell) -> Table:
    """Agents whose model takes its time: how much is added to it."""
    trials, latency = sizes.latency_trials, sizes.latency_s
    ideal = ROUNDS * trials * latency / CONCURRENCY
    table = Table(
        f"{trials} trials of {ROUNDS} rounds at {latency:g} s, concurrency {CONCURRENCY}",
        ("wall ÷ ideal", "wall s", "peak MB"),
    )
    taken = _in_turn(who, table, sizes, (trials, ROUNDS, latency), tell)
    for name, found in taken.items():
        wall = statistics.median(one.cost.wall_s for one in found)
        table.rows[name] = (wall / ideal, wall, _peak(found))
    return table


def one_round_tables(who: Sequence[Contestant], sizes: Sizes, tell: Tell) -> tuple[Table, Table]:
    """A model that answers at once: processor time a trial, and the time before the first."""
    trials = sizes.one_round_trials
    table = Table(
        f"{trials} trials of one round at 0 ms, concurrency {CONCURRENCY}",
        ("CPU ms a trial", "wall s", "peak MB"),
    )
    taken = _in_turn(who, table, sizes, (trials, 1, 0.0), tell)
    starts = Table(
        "Before the first trial",
        ("start to first request s", "import of the SDK s", "beside it s"),
    )
    for name, found in taken.items():
        cpu = statistics.median(one.cost.cpu_s for one in found) / trials * 1000
        wall = statistics.median(one.cost.wall_s for one in found)
        table.rows[name] = (cpu, wall, _peak(found))
        contestant = next(one for one in who if one.name == name)
        loading = _import_s(contestant, sizes)
        first = statistics.median(one.first_s for one in found)
        starts.rows[name] = (first, loading, first - loading)
    return table, starts


def agents_table(who: Sequence[Contestant], sizes: Sizes, tell: Tell) -> Table:
    """Agents whose model answers at once."""
    trials = sizes.agent_trials
    table = Table(
        f"{trials} trials of {ROUNDS} rounds at 0 ms, concurrency {CONCURRENCY}",
        ("wall s", "CPU ms a trial", "peak MB"),
    )
    taken = _in_turn(who, table, sizes, (trials, ROUNDS, 0.0), tell)
    for name, found in taken.items():
        wall = statistics.median(one.cost.wall_s for one in found)
        cpu = statistics.median(one.cost.cpu_s for one in found) / trials * 1000
        table.rows[name] = (wall, cpu, _peak(found))
    return table


def faults_table(who: Sequence[Contestant], sizes: Sizes, tell: Tell) -> Table:
    """A provider that refuses some requests, half of its 429 without saying how long to wait."""
    trials, latency = sizes.latency_trials, sizes.latency_s
    table = Table(
        f"{RATE_LIMITED:.0%} 429 and {OVERLOADED:.0%} 529: {trials} trials of {ROUNDS} rounds "
        f"at {latency:g} s",
        ("wall ÷ without", "wall s", "without s", "requests ÷ needed"),
    )
    calm = _in_turn(who, table, sizes, (trials, ROUNDS, latency), tell)
    rough = _in_turn(who, table, sizes, (trials, ROUNDS, latency), tell, are_faulty=True)
    for name, found in rough.items():
        if name not in calm:
            continue
        wall = statistics.median(one.cost.wall_s for one in found)
        without = statistics.median(one.cost.wall_s for one in calm[name])
        asked = statistics.median(one.asked for one in found) / (trials * ROUNDS)
        table.rows[name] = (wall / without, wall, without, asked)
    return table


def _in_turn(
    who: Sequence[Contestant],
    table: Table,
    sizes: Sizes,
    shape: tuple[int, int, float],
    tell: Tell,
    *,
    are_faulty: bool = False,
) -> dict[str, list[Taken]]:
    """Each contestant's costs; one that failed is noted and left out from then on."""
    taken: dict[str, list[Taken]] = {one.name: [] for one in who}
    for number in range(sizes.times):
        for contestant in who:
            if contestant.name not in taken:
                continue
            try:
                found = _taken(contestant, shape, are_faulty=are_faulty)
            except CommandFailed as error:
                table.notes.append(f"{contestant.name}: {error}")
                del taken[contestant.name]
                continue
            taken[contestant.name].append(found)
            tell(f"{table.title} [{number + 1}]: {contestant.name} {found.cost.wall_s:.2f} s")
    return taken


def _taken(contestant: Contestant, shape: tuple[int, int, float], *, are_faulty: bool) -> Taken:
    """One command of a contestant against a model of its own.

    Raises:
        CommandFailed: It failed, or asked for more or less than the job needs.
    """
    trials, rounds, latency_s = shape
    cases = max(trials // CASE_REPEATS, 1)
    with (
        model_server(
            latency_s=latency_s,
            rounds=rounds,
            rate_limited=RATE_LIMITED if are_faulty else 0.0,
            overloaded=OVERLOADED if are_faulty else 0.0,
        ) as server,
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
    ):
        questions = tuple(f"question {number}" for number in range(cases))
        job = Job(server.url, questions, CASE_REPEATS, rounds, CONCURRENCY)
        cost = run(contestant.command(job, Path(scratch)))
        counts = server.counts()
    asked, answered = int(counts["asked"]), int(counts["answered"].get("200", 0))
    if answered < job.calls or (answered > job.calls and not are_faulty):
        raise CommandFailed(f"the model answered {answered} times, not {job.calls}: no comparison")
    return Taken(cost, asked, float(counts["first_at"]) - cost.started_at)


def _import_s(contestant: Contestant, sizes: Sizes) -> float:
    """What loading the SDK adds to starting the interpreter."""
    load, bare = contestant.sdk_import()
    walls: list[list[float]] = [[], []]
    for _ in range(max(sizes.times, 1)):
        for words, found in zip((load, bare), walls, strict=True):
            found.append(run(Command(words, Path(tempfile.gettempdir()))).wall_s)
    return statistics.median(walls[0]) - statistics.median(walls[1])


def _peak(taken: Sequence[Taken]) -> float:
    return max(one.cost.peak_mb for one in taken)
