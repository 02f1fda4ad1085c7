"""config/suites/*.yaml → suites, with graders built and every name checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from watchkeeper.domain.case import Case, ScriptedResult, ScriptedTool, TrialLimits
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import Grader, Recipient
from watchkeeper.domain.suite import Gate, Suite
from watchkeeper.errors import ConfigError, Fault, UsageError
from watchkeeper.graders import GraderValueError, build_graders, grader_kinds
from watchkeeper.loading.models import CaseModel, ScriptedResultModel, ScriptedToolModel, SuiteModel
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.validation import shown, validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_yaml
from watchkeeper.rollout.toolbox import endpoint_tool_names

_FOLDER = "config/suites"


def load_suites(
    root: Path,
    owners: Mapping[str, Recipient],
    endpoints: Mapping[str, tuple[Endpoint, Document]],
    faults: list[Fault],
) -> dict[str, Suite]:
    """The suites of a project by name.

    Args:
        root: The project folder.
        owners: The known owners.
        endpoints: The known endpoints; a grader may name only tools that one of those which run
            the suite, or the case itself, can offer.
        faults: Receives everything that is wrong.
    """
    folder = root / _FOLDER
    if not folder.is_dir():
        faults.append(Fault(_FOLDER, 1, "the folder is missing; it holds one file a suite"))
        return {}
    suites: dict[str, Suite] = {}
    tools = _EndpointTools(root, endpoints, faults)
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        file = f"{_FOLDER}/{path.name}"
        try:
            document = read_yaml(path, file)
        except ConfigError as error:
            faults.extend(error.faults)
            continue
        suite = _SuiteReader(document, owners, tools, faults).read()
        if suite is None:
            continue
        if suite.name in suites:
            first = suites[suite.name].location
            faults.append(
                document.fault(("suite",), f"suite '{suite.name}' stands also in {first}")
            )
            continue
        suites[suite.name] = suite
    return suites


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
            try:
                names = endpoint_tool_names(endpoint, root)
            except UsageError as error:
                faults.append(document.fault(("endpoints", name, "harness", "tools"), str(error)))
                names = None
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
        owners: Mapping[str, Recipient],
        tools: _EndpointTools,
        faults: list[Fault],
    ) -> None:
        self._document = document
        self._owners = owners
        self._tools = tools
        self._faults = faults

    def read(self) -> Suite | None:
        before = len(self._faults)
        model = validated(SuiteModel, self._document, (), self._document.value, self._faults)
        if model is None:
            return None
        self._check_owner(("owner",), model.owner)
        gates: dict[str, Gate] = {}
        for name, category in model.categories.items():
            owner = category.owner or model.owner
            if category.owner is not None:
                self._check_owner(("categories", name, "owner"), category.owner)
            gates[name] = Gate(name, category.gate, category.action, owner)
        cases = self._cases(model, gates)
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

    def _cases(self, model: SuiteModel, gates: Mapping[str, Gate]) -> list[Case]:
        if not isinstance(model.cases, list):
            self._fault(
                ("cases",),
                f"cases: found {shown(model.cases)}; expected a list of cases. Cases in JSONL, "
                "CSV or folders are not supported by this version",
            )
            return []
        if not model.cases:
            self._fault(("cases",), "cases: the suite has no case; zero cases prove nothing")
        offered = self._tools.of(model.suite)
        cases: list[Case] = []
        first_line: dict[str, int] = {}
        for index, value in enumerate(model.cases):
            path: KeyPath = ("cases", index)
            case = self._case(path, value, gates, offered)
            if case is None:
                continue
            line = self._document.line_of((*path, "id"))
            if case.id in first_line:
                self._fault(
                    (*path, "id"),
                    f"case '{case.id}' stands also on line {first_line[case.id]}; ids are unique",
                )
                continue
            first_line[case.id] = line
            cases.append(case)
        return cases

    def _case(
        self,
        path: KeyPath,
        value: object,
        gates: Mapping[str, Gate],
        offered: frozenset[str] | None,
    ) -> Case | None:
        if isinstance(value, dict) and not value.get("expect"):
            self._fault(
                (*path, "expect") if "expect" in value else path,
                f"case {value.get('id')!r:.80} expects nothing; a case without an expectation "
                f"would always pass. Give 'expect' at least one of: {', '.join(grader_kinds())}",
            )
            return None
        model = validated(CaseModel, self._document, path, value, self._faults)
        if model is None:
            return None
        if model.category not in gates:
            self._fault(
                (*path, "category"),
                f"case '{model.id}': unknown category '{model.category}'; "
                f"{known_names(model.category, gates)}",
            )
        for key in ("files", "setup"):
            if getattr(model, key) is not None:
                self._fault(
                    (*path, key),
                    f"case '{model.id}': '{key}' is not supported by this version; script the "
                    "results of the tools that read them under 'tools'",
                )
        turns = self._turns(path, model)
        tools = self._scripted_tools(path, model)
        graders = self._graders(path, model)
        known = None if offered is None else offered | {tool.name for tool in tools}
        if known is not None:
            self._check_tools(path, model, graders, known)
        return Case(
            id=model.id,
            category=model.category,
            turns=turns,
            graders=tuple(grader for _, grader in graders),
            tools=tools,
            dimension=model.dimension,
            source=model.source,
            cluster=model.cluster,
            tags=model.tags,
            weight=model.weight,
            side_effects=model.side_effects,
            location=f"{self._document.file}:{self._document.line_of((*path, 'id'))}",
        )

    def _turns(self, path: KeyPath, model: CaseModel) -> tuple[str, ...]:
        if (model.input is None) == (model.turns is None):
            self._fault(path, f"case '{model.id}': expected either 'input' or 'turns'")
            return ()
        if model.input is not None:
            return (model.input,)
        texts: list[str] = []
        for index, turn in enumerate(model.turns or []):
            if isinstance(turn, str) and turn:
                texts.append(turn)
            else:
                self._fault(
                    (*path, "turns", index),
                    f"case '{model.id}': found {shown(turn)}; expected text. Content parts "
                    "(images, files) are not supported by this version",
                )
        return tuple(texts)

    def _scripted_tools(self, path: KeyPath, model: CaseModel) -> tuple[ScriptedTool, ...]:
        tools: list[ScriptedTool] = []
        for name, tool in model.tools.items():
            results: list[ScriptedResult] = []
            answers = tool.sequence if tool.sequence is not None else [tool]
            if tool.sequence is not None and _answers(tool):
                self._fault(
                    (*path, "tools", name),
                    f"tool '{name}': expected either 'sequence' or one of 'returns' and 'raises'",
                )
            for index, answer in enumerate(answers):
                if _answers(answer) != 1:
                    where = (*path, "tools", name)
                    self._fault(
                        (*where, "sequence", index) if tool.sequence is not None else where,
                        f"tool '{name}': expected exactly one of 'returns' and 'raises'",
                    )
                    continue
                results.append(_result(answer))
            tools.append(
                ScriptedTool(
                    name=name,
                    results=tuple(results),
                    description=tool.description,
                    input_schema=tool.input_schema,
                    is_silent=tool.silent,
                )
            )
        return tuple(tools)

    def _graders(self, path: KeyPath, model: CaseModel) -> list[tuple[str, Grader]]:
        graders: list[tuple[str, Grader]] = []
        seen: set[str] = set()
        for kind, value in model.expect.items():
            where = (*path, "expect", kind)
            if kind not in grader_kinds():
                self._fault(
                    where,
                    f"case '{model.id}' asks for grader '{kind}'; "
                    f"{known_names(kind, grader_kinds())}",
                )
                continue
            try:
                built = build_graders(kind, value)
            except GraderValueError as error:
                for below, message in error.problems:
                    self._fault((*where, *below), f"case '{model.id}': {kind}: {message}")
                continue
            for grader in built:
                if grader.assertion in seen:
                    self._fault(where, f"case '{model.id}' asserts '{grader.assertion}' twice")
                    continue
                seen.add(grader.assertion)
                graders.append((kind, grader))
        return graders

    def _check_tools(
        self,
        path: KeyPath,
        model: CaseModel,
        graders: list[tuple[str, Grader]],
        known: frozenset[str],
    ) -> None:
        for kind, grader in graders:
            for tool in grader.mentioned_tools():
                if tool not in known:
                    self._fault(
                        (*path, "expect", kind),
                        f"case '{model.id}': {kind}: unknown tool '{tool}'; "
                        f"{known_names(tool, known)}. A tool is known when an endpoint that runs "
                        "this suite offers it, or the case scripts it",
                    )

    def _check_owner(self, path: KeyPath, owner: str) -> None:
        if owner not in self._owners:
            key = ".".join(map(str, path))
            self._fault(path, f"{key}: unknown owner '{owner}'; {known_names(owner, self._owners)}")

    def _fault(self, path: KeyPath, message: str) -> None:
        self._faults.append(self._document.fault(path, message))


def _answers(model: ScriptedResultModel) -> int:
    given = model.model_fields_set & {"returns", "raises"}
    return len(given)


def _result(answer: ScriptedResultModel | ScriptedToolModel) -> ScriptedResult:
    if "raises" in answer.model_fields_set:
        return ScriptedResult(answer.raises or "", is_error=True)
    value = answer.returns
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ScriptedResult(text)
