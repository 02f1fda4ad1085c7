"""What is behind several confirmed regressions, and who is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.stats.facts import (
    CONSTANTS,
    Behaviour,
    either,
    failing,
    gate,
    manifest,
    stamps,
    steady,
    trials,
)
from watchkeeper.domain.facts import FactTable
from watchkeeper.domain.run import Manifest, OutcomeCounts
from watchkeeper.domain.verdict import CriticalFailure, GateResult, Level, Metric, RegressionRoot
from watchkeeper.stats.comparison import Comparison
from watchkeeper.stats.confirmation import Suspect
from watchkeeper.stats.hypotheses import Hypothesis
from watchkeeper.stats.roots import Root, group_by_root, regression_roots
from watchkeeper.stats.screen import Screened

CASES = stamps({"facts": 6, "tone": 6})
NAMES = tuple(stamp.case_id for stamp in CASES)
FACTS, TONE = NAMES[:6], NAMES[6:]
BASELINE = FactTable(fact for number in range(1, 11) for fact in trials(manifest(number, CASES)))


def night(behaviour: Behaviour) -> Comparison:
    """A night held against ten steady ones."""
    return Comparison(BASELINE, FactTable(trials(manifest(11, CASES), behaviour)))


def slow(*prefixes: str) -> Behaviour:
    """These cases take three times their rounds and dollars."""
    return either(
        steady,
        lambda case, index: (
            {
                "round_count": 3 * steady(case, index)["round_count"],
                "cost_usd": 3 * steady(case, index)["cost_usd"],
            }
            if case.startswith(prefixes)
            else {}
        ),
    )


def hypothesis(
    metric: Metric, level: Level, group: str, cases: Sequence[str] | None = None
) -> Hypothesis:
    """A hypothesis over the cases that its group names."""
    chosen = {"suite": NAMES, "facts": FACTS, "tone": TONE}.get(group, (group,))
    return Hypothesis(metric, level, group, tuple(cases or chosen))


def grouped(
    comparison: Comparison, *confirmed: Hypothesis, told: Sequence[str] = ()
) -> list[list[str]]:
    """The roots of what was confirmed, each as ``metric/level/group`` of its members."""
    suspects = []
    for one in confirmed:
        compared = comparison.compare(one.metric, one.cases, 1.0, 0.01)
        assert compared is not None
        suspects.append(Suspect(Screened(one, compared, 0.001, is_suspect=True), one.cases, 3, 4))
    roots = group_by_root(suspects, comparison, CONSTANTS, frozenset(told))
    return [[f"{m.metric}/{m.level}/{m.group}" for m in root.members] for root in roots]


class TestGrouping:
    """One root for one cause."""

    def test_a_tool_explains_its_cases(self) -> None:
        """Rounds, cost and single cases of a tool's cases, and the suite that rose for them."""
        roots = grouped(
            night(slow("facts")),
            hypothesis("rounds", "suite", "suite"),
            hypothesis("cost_usd", "suite", "suite"),
            hypothesis("rounds", "case", "facts-03"),
            hypothesis("cost_usd", "tool", "find_files", FACTS),
            hypothesis("rounds", "tool", "find_files", FACTS),
        )
        assert roots == [
            [
                "rounds/tool/find_files",
                "cost_usd/tool/find_files",
                "rounds/suite/suite",
                "cost_usd/suite/suite",
                "rounds/case/facts-03",
            ]
        ]

    def test_metrics_of_one_group_are_one_root(self) -> None:
        """Wrong answers and more rounds of one category are one trouble, the answers first."""
        roots = grouped(
            night(either(slow("facts"), failing("facts-*"))),
            hypothesis("rounds", "category", "facts"),
            hypothesis("pass_rate", "category", "facts"),
        )
        assert roots == [["pass_rate/category/facts", "rounds/category/facts"]]

    def test_two_categories_and_the_suite(self) -> None:
        """Where everything moved the suite is the one root and the categories belong to it."""
        roots = grouped(
            night(slow("facts", "tone")),
            hypothesis("rounds", "category", "facts"),
            hypothesis("rounds", "category", "tone"),
            hypothesis("rounds", "suite", "suite"),
        )
        assert roots == [["rounds/suite/suite", "rounds/category/facts", "rounds/category/tone"]]

    def test_two_categories_without_the_suite(self) -> None:
        """Two categories that fell for themselves are two roots."""
        roots = grouped(
            night(slow("facts", "tone")),
            hypothesis("rounds", "category", "facts"),
            hypothesis("rounds", "category", "tone"),
        )
        assert roots == [["rounds/category/facts"], ["rounds/category/tone"]]

    def test_a_case_outside_is_a_root_of_its_own(self) -> None:
        """A single case that is not among the tool's is told apart from it."""
        roots = grouped(
            night(slow("facts", "tone-02")),
            hypothesis("rounds", "tool", "find_files", FACTS),
            hypothesis("rounds", "case", "tone-02"),
        )
        assert roots == [["rounds/tool/find_files"], ["rounds/case/tone-02"]]

    def test_the_suite_moved_beyond_the_tool(self) -> None:
        """A suite that is worse also without the tool's cases stands beside it."""
        roots = grouped(
            night(slow("facts", "tone")),
            hypothesis("rounds", "tool", "find_files", FACTS),
            hypothesis("rounds", "suite", "suite"),
        )
        assert roots == [["rounds/tool/find_files"], ["rounds/suite/suite"]]

    def test_the_order_in_which_they_come_does_not_matter(self) -> None:
        """Roots depend on what was confirmed, not on the order of its list."""
        confirmed = [
            hypothesis("rounds", "tool", "find_files", FACTS),
            hypothesis("rounds", "case", "facts-01"),
            hypothesis("rounds", "suite", "suite"),
            hypothesis("cost_usd", "suite", "suite"),
        ]
        comparison = night(slow("facts"))
        assert grouped(comparison, *confirmed) == grouped(comparison, *reversed(confirmed))

    def test_what_a_gate_tells_already(self) -> None:
        """A pass rate that fell for a paged gate's cases alone is no root; its rounds are."""
        comparison = night(either(slow("facts"), failing("facts-*")))
        confirmed = (
            hypothesis("pass_rate", "suite", "suite"),
            hypothesis("pass_rate", "category", "facts"),
            hypothesis("rounds", "category", "facts"),
        )
        assert grouped(comparison, *confirmed, told=FACTS) == [["rounds/category/facts"]]
        assert len(grouped(comparison, *confirmed)[0]) == 3

    def test_what_a_gate_does_not_explain(self) -> None:
        """A suite that lost answers elsewhere too is told beside the gate."""
        comparison = night(failing("facts-*", "tone-*"))
        roots = grouped(comparison, hypothesis("pass_rate", "suite", "suite"), told=FACTS)
        assert roots == [["pass_rate/suite/suite"]]


def failed_gate(category: str, *, acts: bool = True) -> GateResult:
    """A failed gate of a category."""
    counts = OutcomeCounts(planned=18, passed=9, failed=9)
    return GateResult(category, 0.9, "page", f"{category}-owner", "failed", acts, counts, 0.3, 0.7)


CRITICAL = CriticalFailure("facts-00", "trial", "facts", "avoids delete", "called")
NIGHT = manifest(11, CASES, [gate("facts", 0.9, owner="facts-owner")])


def told(
    *roots: Root,
    gates: Sequence[GateResult] = (),
    critical: Sequence[CriticalFailure] = (),
    of: Manifest = NIGHT,
) -> list[RegressionRoot]:
    """Who is told of what."""
    return list(regression_roots(of, roots, gates, critical))


class TestTold:
    """Who is told."""

    def test_the_owner_of_the_category(self) -> None:
        """Cases of one gated category are its owner's; the root names its members."""
        root = Root((hypothesis("rounds", "tool", "find_files", FACTS),))
        assert told(root) == [
            RegressionRoot("tool", "find_files", "facts-owner", "page", ("rounds/tool/find_files",))
        ]

    def test_the_owner_of_the_suite(self) -> None:
        """Cases of several categories, or of one without a gate, are the suite owner's."""
        suite = Root((hypothesis("rounds", "suite", "suite"),))
        tone = Root((hypothesis("rounds", "category", "tone"),))
        assert [(one.kind, one.name, one.owner) for one in told(suite, tone)] == [
            ("suite", "basic", "suite-owner"),
            ("category", "tone", "suite-owner"),
        ]

    def test_gates_come_first(self) -> None:
        """An acting gate is a root; the pass rate of its category is not told a second time."""
        answers = Root((hypothesis("pass_rate", "category", "facts"),))
        rounds = Root((hypothesis("rounds", "category", "facts"),))
        found = told(answers, rounds, gates=[failed_gate("facts")])
        assert [(one.kind, one.members[:1]) for one in found] == [
            ("gate", ()),
            ("category", ("rounds/category/facts",)),
        ]

    def test_a_gate_that_does_not_act(self) -> None:
        """A gate that only reports is no root."""
        assert told(gates=[failed_gate("facts", acts=False)]) == []

    def test_critical(self) -> None:
        """A critical failure makes its category's gate a critical root, whatever the gate says."""
        found = told(gates=[failed_gate("facts", acts=False)], critical=[CRITICAL, CRITICAL])
        assert found == [RegressionRoot("gate", "facts", "facts-owner", "critical")]
