"""config/suites/*.yaml → suites, with graders built and every name checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from watchkeeper.domain.case import Case, TrialLimits
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Recipient
from watchkeeper.domain.simulator import Simulator
from watchkeeper.domain.suite import Gate, Suite
from watchkeeper.errors import ConfigError, Fault, UsageError
from watchkeeper.loading.case_sources import case_sources
from watchkeeper.loading.cases import CaseReader
from watchkeeper.loading.suite_models import SuiteModel
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_yaml
from watchkeeper.rollout.toolbox import endpoint_tool_names

_FOLDER = "config/suites"


def load_suites(
    root: Path,
    owners: Mapping[str, Recipient],
    endpoints: Mapping[str, tuple[Endpoint, Document]],
    simulators: Mapping[str, Simulator],
    faults: list[Fault],
) -> tuple[dict[str, Suite], frozenset[str]]:
    """The suites of a project by name, and every name that a file gives, faulty ones included.

    Args:
        root: The project folder.
        owners: The known owners.
        endpoints: The known endpoints; a grader may name only tools that one of those which run
            the suite, or the case itself, can offer.
        simulators: The known simulated users.
        faults: Receives everything that is wrong.
    """
    folder = root / _FOLDER
    if not folder.is_dir():
        faults.append(Fault(_FOLDER, 1, "the folder is missing; it holds one file a suite"))
        return {}, frozenset()
    named: set[str] = set()
    suites: dict[str, Suite] = {}
    tools = _EndpointTools(root, endpoints, faults)
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        file = f"{_FOLDER}/{path.name}"
        try:
            document = read_yaml(path, file)
        except ConfigError as error:
            faults.extend(error.faults)
            named.add(path.stem)
            continue
        if isinstance(document.value, dict):
            named.add(str(document.value.get("suite", path.stem)))
        suite = _SuiteReader(document, root, owners, tools, simulators, faults).read()
        if suite is None:
            continue
        if suite.name in suites:
            first = suites[suite.name].location
            faults.append(
                document.fault(("suite",), f"suite '{suite.name}' stands also in {first}")
            )
            continue
        suites[suite.name] = suite
    return suites, frozenset(named)


class _EndpointTools:
    """Which tools the endpoints that run a suite can offer; ``None`` where that is unknowable."""

    def __init__(
        self,
        root: Path,
        endpoints: Mapping[str, tuple[Endpoint, Document]],
        faults: list[Fault],
    ) -> None:
        self._by_suite: dict[str, list[frozenset[str] | None]] = {}
        for name, (endpoint, document) in endpoints.items():
            path: KeyPath = ("endpoints", name)
            names: frozenset[str] | None = None
            try:
                names = endpoint_tool_names(endpoint, root)
            except ConfigError as error:  # in the script of a scripted agent
                faults.extend(
                    one
                    if (root / one.file).is_file()
                    else document.fault((*path, "script"), f"script: {one.message}: {one.file}")
                    for one in error.faults
                )
            except UsageError as error:
                faults.append(document.fault((*path, "harness", "tools"), str(error)))
            for suite in endpoint.suites:
                self._by_suite.setdefault(suite, []).append(names)

    def of(self, suite: str) -> frozenset[str] | None:
        offered = self._by_suite.get(suite, [])
        if not offered or any(names is None for names in offered):
            return None
        return frozenset().union(*(names for names in offered if names is not None))


class _SuiteReader:
    """Reads one suite file."""

    def __init__(
        self,
        document: Document,
        root: Path,
        owners: Mapping[str, Recipient],
        tools: _EndpointTools,
        simulators: Mapping[str, Simulator],
        faults: list[Fault],
    ) -> None:
        self._document = document
        self._root = root
        self._owners = owners
        self._tools = tools
        self._simulators = simulators
        self._faults = faults

    def read(self) -> Suite | None:
        before = len(self._faults)
        given = self._document.value
        model = validated(SuiteModel, self._document, (), given, self._faults)
        if isinstance(given, dict):
            self._check_owners(given)
        if model is None:
            if isinstance(given, dict):  # what is wrong with the cases is said all the same
                categories = given.get("categories")
                known = categories if isinstance(categories, dict) else None
                self._cases(str(given.get("suite")), given.get("cases", ...), known)
            return None
        gates = {
            name: Gate(name, category.gate, category.action, category.owner or model.owner)
            for name, category in model.categories.items()
        }
        cases = self._cases(model.suite, model.cases, gates)
        used = {case.category for case in cases}
        for name in gates:
            if name not in used and len(self._faults) == before:
                self._fault(
                    ("categories", name),
                    f"category '{name}' has a gate but no case; a gate without cases is never "
                    "green. Add a case or remove the category",
                )
        if len(self._faults) > before:
            return None
        limits = model.trial_limits
        return Suite(
            name=model.suite,
            claim=model.claim,
            owner=model.owner,
            trials=model.trials,
            limits=TrialLimits(limits.rounds, limits.seconds, limits.tokens, limits.cost_usd),
            gates=gates,
            cases=tuple(cases),
            location=f"{self._document.file}:{self._document.line_of(('suite',))}",
        )

    def _cases(self, suite: str, given: object, categories: Collection[str] | None) -> list[Case]:
        if given is ...:
            return []
        offered = self._tools.of(suite)
        cases: list[Case] = []
        first: dict[str, str] = {}
        for document, path, value in case_sources(
            self._document, self._root / _FOLDER, given, self._faults
        ):
            reader = CaseReader(
                document, categories, offered, self._faults, self._root, self._simulators
            )
            case = reader.read(path, value)
            if case is None:
                continue
            where = f"{document.file}:{document.line_of((*path, 'id'))}"
            if case.id in first:
                self._faults.append(
                    document.fault(
                        (*path, "id"),
                        f"case '{case.id}' stands also at {first[case.id]}; ids are unique",
                    )
                )
                continue
            first[case.id] = where
            cases.append(case)
        return cases

    def _check_owners(self, given: Mapping[str, object]) -> None:
        found: dict[KeyPath, object] = {("owner",): given.get("owner")}
        categories = given.get("categories")
        for name, category in categories.items() if isinstance(categories, dict) else ():
            if isinstance(category, dict):
                found["categories", name, "owner"] = category.get("owner")
        for path, owner in found.items():
            if is_unknown_name(owner, self._owners):
                key, known = ".".join(map(str, path)), known_names(owner, self._owners)
                self._fault(path, f"{key}: unknown owner '{owner}'; {known}")

    def _fault(self, path: KeyPath, message: str) -> None:
        self._faults.append(self._document.fault(path, message))
