"""One case of a suite: its turns, scripted tools and graders, every name checked."""

from __future__ import annotations

import json
from collections.abc import Collection

from watchkeeper.domain.case import Case, ScriptedResult, ScriptedTool
from watchkeeper.domain.content import UserTurn
from watchkeeper.domain.grade import Grader
from watchkeeper.errors import Fault
from watchkeeper.graders import GraderValueError, build_graders, grader_kinds
from watchkeeper.loading.models import CaseModel, ScriptedResultModel, ScriptedToolModel
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import shown, validated
from watchkeeper.parsing.yaml_source import Document, KeyPath


class CaseReader:
    """Reads the cases of one file.

    Args:
        document: The file.
        categories: The categories that the suite declares; ``None``: it cannot be known.
        offered: Tools that the endpoints running the suite offer; ``None``: it cannot be known.
        faults: Receives everything that is wrong.
    """

    def __init__(
        self,
        document: Document,
        categories: Collection[str] | None,
        offered: frozenset[str] | None,
        faults: list[Fault],
    ) -> None:
        self._document = document
        self._categories = categories
        self._offered = offered
        self._faults = faults

    def read(self, path: KeyPath, value: object) -> Case | None:
        """The case that stands at a key path, or ``None`` with its faults appended."""
        if isinstance(value, dict) and not value.get("expect"):
            self._fault(
                (*path, "expect") if "expect" in value else path,
                f"case {value.get('id')!r:.80} expects nothing; a case without an expectation "
                f"would always pass. Give 'expect' at least one of: {', '.join(grader_kinds())}",
            )
            return None
        model = validated(CaseModel, self._document, path, value, self._faults)
        if model is None:
            if isinstance(value, dict):  # what else is wrong with it is said all the same
                self._check_category(path, value.get("id"), value.get("category"))
                self._graders(path, value.get("id"), value.get("expect"))
            return None
        self._check_category(path, model.id, model.category)
        for key in ("files", "setup"):
            if getattr(model, key) is not None:
                self._fault(
                    (*path, key),
                    f"case '{model.id}': '{key}' is not supported by this version; script the "
                    "results of the tools that read them under 'tools'",
                )
        turns = self._turns(path, model)
        tools = self._scripted_tools(path, model)
        graders = self._graders(path, model.id, model.expect)
        scripted = {tool.name for tool in tools}
        known = None if self._offered is None else self._offered | scripted
        if known is not None:
            self._check_tools(path, model, graders, known)
        return Case(
            id=model.id,
            category=model.category,
            turns=tuple(map(UserTurn, turns)),
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

    def _check_category(self, path: KeyPath, case: object, category: object) -> None:
        known = self._categories
        if known is not None and is_unknown_name(category, known):
            self._fault(
                (*path, "category"),
                f"case '{case}': unknown category '{category}'; {known_names(category, known)}",
            )

    def _graders(self, path: KeyPath, case: object, expect: object) -> list[tuple[str, Grader]]:
        graders: list[tuple[str, Grader]] = []
        seen: set[str] = set()
        for kind, value in expect.items() if isinstance(expect, dict) else ():
            where = (*path, "expect", kind)
            if kind not in grader_kinds():
                self._fault(
                    where,
                    f"case '{case}' asks for grader '{kind}'; {known_names(kind, grader_kinds())}",
                )
                continue
            try:
                built = build_graders(kind, value)
            except GraderValueError as error:
                for below, message in error.problems:
                    self._fault((*where, *below), f"case '{case}': {kind}: {message}")
                continue
            for grader in built:
                if grader.assertion in seen:
                    self._fault(where, f"case '{case}' asserts '{grader.assertion}' twice")
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
