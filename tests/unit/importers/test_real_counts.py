"""Counts of real files, derived by hand from the raw messages before any code counted them.

How each number came about stands beside it: message or step numbers are those of the file,
counted from 0. A call is written with the number of the message that makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.importers.public_data import INSPECT, SWE_AGENT, TAU_BENCH, needs
from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.tallies import ToolTally, tally_rounds
from watchkeeper.domain.trajectory import Usage
from watchkeeper.importers import inspect, swe_agent, tau_bench


@dataclass(frozen=True)
class Counted:
    """What was counted by hand; of the tools only what is not 0 besides the calls."""

    rounds: int
    calling: int
    barren: int
    calls: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    empties: Mapping[str, int] = field(default_factory=dict)
    missing_paths: Mapping[str, int] = field(default_factory=dict)
    unanswered: Mapping[str, int] = field(default_factory=dict)


def counted(*trials: ImportedTrial) -> Counted:
    """The same counts as the code makes them."""
    tools: dict[str, ToolTally] = {}
    rounds = tally_rounds([trial.trajectory for trial in trials], tools)

    def some(count: str) -> dict[str, int]:
        return {name: found for name, one in tools.items() if (found := getattr(one, count))}

    return Counted(
        rounds.round_count,
        rounds.calling_round_count,
        rounds.barren_round_count,
        some("call_count"),
        some("silent_count"),
        some("error_count"),
        some("empty_count"),
        some("missing_path_count"),
        some("unanswered_count"),
    )


TAU_TRIALS = {
    # The assistant speaks in 2 4 6 8 … 30: 15 rounds. It calls get_user_details (6),
    # search_direct_flight (8), search_onestop_flight (12), calculate (16, 24), book_reservation
    # (20: "Error: payment amount does not add up", 28: booked), think (22). think returns nothing
    # by design, so seven rounds count, and 20 is barren. Two calls share the id of an earlier
    # one: 12 has that of 8, 16 that of 6.
    (0, 0): Counted(
        rounds=15,
        calling=7,
        barren=1,
        calls={
            "get_user_details": 1,
            "search_direct_flight": 1,
            "search_onestop_flight": 1,
            "calculate": 2,
            "book_reservation": 2,
            "think": 1,
        },
        silent={"think": 1},
        errors={"book_reservation": 1},
    ),
    # It only talks: 2 4 6 8 10.
    (1, 0): Counted(rounds=5, calling=0, barren=0),
    # 2 4 … 22 are 11 rounds; calls in 4 (user), 6 8 10 (reservations), 14 16 (updates), 20
    # (calculate), each answered.
    (2, 0): Counted(
        rounds=11,
        calling=7,
        barren=0,
        calls={
            "get_user_details": 1,
            "get_reservation_details": 3,
            "update_reservation_flights": 2,
            "calculate": 1,
        },
    ),
    # 30 rounds: 2 4 … 60. get_user_details 6; get_reservation_details 8 to 20, seven;
    # search_direct_flight 24, which finds "[]"; search_onestop_flight 26; think 30 and 46;
    # calculate 32 and 34; update_reservation_flights 40 44 50 52 54 58, of which the first five
    # bring "Error: …". Calls: 1 + 7 + 1 + 1 + 2 + 2 + 6 = 20, without think 18. Barren: 24 and
    # the five.
    (3, 0): Counted(
        rounds=30,
        calling=18,
        barren=6,
        calls={
            "get_user_details": 1,
            "get_reservation_details": 7,
            "search_direct_flight": 1,
            "search_onestop_flight": 1,
            "think": 2,
            "calculate": 2,
            "update_reservation_flights": 6,
        },
        silent={"think": 2},
        errors={"update_reservation_flights": 5},
        empties={"search_direct_flight": 1},
    ),
    # 2 4 … 22 are 11 rounds; calls in 4 8 12 14 16 20, of which 14 is think.
    (6, 0): Counted(
        rounds=11,
        calling=5,
        barren=0,
        calls={
            "get_user_details": 1,
            "get_reservation_details": 1,
            "search_onestop_flight": 1,
            "think": 1,
            "calculate": 1,
            "update_reservation_flights": 1,
        },
        silent={"think": 1},
    ),
    # Text and a call in one message are one round: 4 and 12. 2 4 … 24 are 12 rounds; calls in
    # 4 8 12 14 16 22, of which 16 is think.
    (6, 3): Counted(
        rounds=12,
        calling=5,
        barren=0,
        calls={
            "get_user_details": 1,
            "get_reservation_details": 1,
            "search_direct_flight": 2,
            "think": 1,
            "update_reservation_flights": 1,
        },
        silent={"think": 1},
    ),
    # 30 rounds, then the bench gave up. Talk in 2 4 6 22 24 34 42, seven; think in 18 46 50 54 58;
    # book_reservation in 44 48 52 56 60, each "Error: payment amount …"; the other 13 calls are
    # user 8, reservation 10, direct 12 16, onestop 14, cancel 26, calculate 20 28 30 32 36 38 40.
    (9, 2): Counted(
        rounds=30,
        calling=18,
        barren=5,
        calls={
            "get_user_details": 1,
            "get_reservation_details": 1,
            "search_direct_flight": 2,
            "search_onestop_flight": 1,
            "cancel_reservation": 1,
            "calculate": 7,
            "think": 5,
            "book_reservation": 5,
        },
        silent={"think": 5},
        errors={"book_reservation": 5},
    ),
}


@needs(TAU_BENCH)
@pytest.mark.parametrize("which", TAU_TRIALS)
def test_tau_bench(which: tuple[int, int]) -> None:
    """Trajectories of the airline agent, by task and trial."""
    trials = {(trial.case_id, trial.index): trial for trial in tau_bench.read(TAU_BENCH)}
    task, index = which
    assert counted(trials[str(task), index]) == TAU_TRIALS[which]


@needs(TAU_BENCH)
def test_tau_bench_as_a_whole() -> None:
    """All forty, counted over the raw messages.

    Assistant messages: 305 without a call, 260 with a call alone, 14 with text and a call: 579
    rounds; 274 calls, never two in one message. 25 of them are think, so 249 rounds count. Of the
    results 24 begin with "Error: " (16 of book_reservation, 7 of update_reservation_flights, 1 of
    update_reservation_baggages) and two are "[]" (search_direct_flight); the rest are objects
    of a reservation or a user, numbers, lists of flights and three "Transfer successful". With
    one call a round, 26 rounds are barren.
    """
    trials = list(tau_bench.read(TAU_BENCH))
    assert len(trials) == 40
    found = counted(*trials)
    assert (found.rounds, found.calling, found.barren) == (579, 249, 26)
    assert sum(found.calls.values()) == 274
    assert found.silent == {"think": 25}
    assert found.errors == {
        "book_reservation": 16,
        "update_reservation_flights": 7,
        "update_reservation_baggages": 1,
    }
    assert found.empties == {"search_direct_flight": 2}
    assert found.missing_paths == found.unanswered == {}


@needs(TAU_BENCH)
def test_tau_bench_tells_what_it_knows() -> None:
    """Reward as data, the user's cost apart, the agent's unknown, and which never ended."""
    trials = {(trial.case_id, trial.index): trial for trial in tau_bench.read(TAU_BENCH)}
    first = trials["0", 0]
    assert first.scores == {"reward": 0.0}
    assert first.simulator_cost_usd == pytest.approx(0.0035475)
    assert first.cost_usd is None
    assert first.served_model is None
    assert trials["6", 0].scores == {"reward": 1.0}
    unfinished = [which for which, trial in trials.items() if trial.stop_reason == "not_finished"]
    assert unfinished == [("2", 1), ("9", 2), ("9", 3)]
    assert trials["9", 2].simulator_cost_usd is None


SWE_FILES = {
    # Steps 0 to 4: find_file, open, edit, python3, submit; four results and the patch, which
    # nobody reads any more: submit hands in and has nothing to say.
    "*sweagenttestrepo*": Counted(
        rounds=5,
        calling=4,
        barren=0,
        calls={"find_file": 1, "open": 1, "edit": 1, "python3": 1, "submit": 1},
        silent={"submit": 1},
    ),
    # 12 steps: create 0; edit 1 5 6 7 8, of which 5 6 7 are refused ("Your proposed edit has
    # introduced new syntax error(s)"); python 2, a traceback, and 9; find_file 3; open 4, whose
    # file speaks of errors; rm 10, no output; submit 11. Barren: 2 5 6 7 10.
    "*pydicom-1458*": Counted(
        rounds=12,
        calling=11,
        barren=5,
        calls={
            "create": 1,
            "edit": 5,
            "python": 2,
            "find_file": 1,
            "open": 1,
            "rm": 1,
            "submit": 1,
        },
        silent={"submit": 1},
        errors={"edit": 3, "python": 1},
        empties={"rm": 1},
    ),
    # 16 steps: open 0 6 9; create 1; edit 2 4 7 8 10 11 13, of which 7 8 10 are refused; python
    # 3 and 12, tracebacks, 5 and 14; submit 15, whose observation is "". Barren: 3 7 8 10 12.
    "*BabyEncryption*": Counted(
        rounds=16,
        calling=15,
        barren=5,
        calls={"open": 3, "create": 1, "edit": 7, "python": 4, "submit": 1},
        silent={"submit": 1},
        errors={"edit": 3, "python": 2},
    ),
}


def _swe_file(pattern: str) -> Path:
    (path,) = SWE_AGENT.glob(pattern)
    return path


@needs(SWE_AGENT)
@pytest.mark.parametrize("pattern", SWE_FILES)
def test_swe_agent(pattern: str) -> None:
    """Trajectories of SWE-agent; a round is a step, a tool the first word of its action."""
    (trial,) = swe_agent.read(_swe_file(pattern))
    assert counted(trial) == SWE_FILES[pattern]
    assert trial.stop_reason == "answered"


@needs(SWE_AGENT)
def test_swe_agent_tells_what_it_knows() -> None:
    """The rounds are the calls that it counted itself; a cost of 0 is unknown, as are tokens."""
    (priced,) = swe_agent.read(_swe_file("*pydicom-1458*"))
    assert priced.cost_usd == pytest.approx(1.26719)
    assert priced.usage == Usage(input_tokens=122_612, output_tokens=1_369)
    assert priced.trajectory.answer.startswith("\ndiff --git a/pydicom")
    (other,) = swe_agent.read(_swe_file("*sweagenttestrepo*"))
    assert other.cost_usd == pytest.approx(0.01952)
    (unpriced,) = swe_agent.read(_swe_file("*BabyEncryption*"))
    assert unpriced.cost_usd is None
    assert unpriced.usage is None


INSPECT_FILES = {
    # Five model events, 1 to 4 with a call each, the fifth answers. web_browser_go, then
    # web_browser_click three times; each brings a page of 1,601 to 6,967 characters.
    "*browser.json": Counted(
        rounds=5,
        calling=4,
        barren=0,
        calls={"web_browser_go": 1, "web_browser_click": 3},
    ),
    # Three samples of one answer each. Each has two model events: the second is the scorer's
    # judge, which is no round of the agent.
    "*security-guide.json": Counted(rounds=3, calling=0, barren=0),
    # Ten samples that answer Yes or No at once.
    "*popularity*.eval": Counted(rounds=10, calling=0, barren=0),
    "log_formats.eval": Counted(rounds=1, calling=0, barren=0),
}


def _inspect_file(pattern: str) -> Path:
    (path,) = INSPECT.glob(pattern)
    return path


@needs(INSPECT)
@pytest.mark.parametrize("pattern", INSPECT_FILES)
def test_inspect(pattern: str) -> None:
    """Evaluation logs in both forms."""
    assert counted(*inspect.read(_inspect_file(pattern))) == INSPECT_FILES[pattern]


@needs(INSPECT)
def test_inspect_tells_what_it_knows() -> None:
    """Each token once, the judge's apart, what was asked for and what served.

    The browser's log gives 15,235 input tokens, of which 9,088 came from the cache: 15,235 + 281
    is its total, so those are part of the input. Without them 6,147 are left. Of the security
    guide's first sample 320 and 309 tokens are both models' together; the agent's alone are 61
    and 17.
    """
    (browser,) = inspect.read(_inspect_file("*browser.json"))
    assert browser.trajectory.usage == Usage(6_147, None, None, 9_088, 281, 0)
    assert browser.trajectory.usage.total_tokens == 15_516
    assert browser.served_model == "gpt-4o-mini-2024-07-18"
    assert browser.requested_model == "openai/gpt-4o-mini"
    assert browser.scores == {"includes": "C"}
    assert browser.trajectory.answer.startswith("The AI Security Institute (AISI)")
    assert (browser.case_id, browser.index, browser.stop_reason) == ("1", 0, "answered")
    guide = list(inspect.read(_inspect_file("*security-guide.json")))
    usage = guide[0].trajectory.usage
    assert (usage.input_tokens, usage.output_tokens) == (61, 17)
    assert [trial.scores for trial in guide] == [{"model_graded_fact": "C"}] * 3
    popularity = list(inspect.read(_inspect_file("*popularity*.eval")))
    assert {trial.case_id for trial in popularity} == set(map(str, range(1, 11)))
    assert {trial.trajectory.answer for trial in popularity} <= {"Yes", "No"}
    assert sum(trial.trajectory.usage.total_tokens or 0 for trial in popularity) == 640
    (old,) = inspect.read(_inspect_file("log_formats.eval"))
    assert old.trajectory.usage == Usage(66, None, None, None, 2, None)
    assert old.scores == {"match": "I"}
