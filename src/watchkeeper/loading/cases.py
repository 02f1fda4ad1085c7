"""One case of a suite: its turns, scripted tools and graders, every name checked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from watchkeeper.domain.case import (
    Case,
    InitialFiles,
    Preparation,
    ScriptedResult,
    ScriptedTool,
    SimulatedUser,
)
from watchkeeper.domain.content import Attachment, Part, UserTurn
from watchkeeper.domain.grade import Grader
from watchkeeper.domain.simulator import Simulator
from watchkeeper.errors import Fault
from watchkeeper.graders import GraderValueError, build_graders, grader_kinds
from watchkeeper.loading.suite_models import (
    CaseModel,
    PartModel,
    ScriptedResultModel,
    ScriptedToolModel,
)
from watchkeeper.loading.surroundings import Unusable, attachment, initial_files, preparation
from watchkeeper.parsing.suggest import is_unknown_name, known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath


class CaseReader:
    """Reads the cases of one file.

    Args:
        document: The file.
        categories: The categories that the suite declares; ``None``: it cannot be known.
        offered: Tools that the endpoints running the suite offer; ``None``: it cannot be known.
        faults: Receives everything that is wrong.
        root: The project folder, where files are looked for.
        simulators: The known simulated users.
    """

    def __init__(
        self,
        document: Document,
        categories: Collection[str] | None,
        offered: frozenset[str] | None,
        faults: list[Fault],
        root: Path,
        simulators: Mapping[str, Simulator],
    ) -> None:
        self._document = document
        self._root = root
        self._simulators = simulators
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
            turns=turns,
            graders=tuple(grader for _, grader in graders),
            tools=tools,
            dimension=model.dimension,
            source=model.source,
            cluster=model.cluster,
            tags=model.tags,
            weight=model.weight,
            side_effects=model.side_effects,
            files=self._files(path, model),
            setup=self._commands(path, model, "setup"),
            reset=self._commands(path, model, "reset"),
            user=self._user(path, model),
            location=f"{self._document.file}:{self._document.line_of((*path, 'id'))}",
        )

    def _turns(self, path: KeyPath, model: CaseModel) -> tuple[UserTurn, ...]:
        if (model.input is None) == (model.turns is None):
            self._fault(path, f"case '{model.id}': expected either 'input' or 'turns'")
            return ()
        if model.input is not None:
            return (self._turn((*path, "input"), model.id, model.input),)
        turns = enumerate(model.turns or [])
        return tuple(self._turn((*path, "turns", index), model.id, one) for index, one in turns)

    def _turn(self, path: KeyPath, case: str, said: str | list[str | PartModel]) -> UserTurn:
        if isinstance(said, str):
            return UserTurn(said)
        parts: list[Part] = []
        for index, one in enumerate(said):
            part = one if isinstance(one, str) else self._attachment((*path, index), case, one)
            if part is not None:
                parts.append(part)
        return UserTurn.of(tuple(parts))

    def _attachment(self, path: KeyPath, case: str, given: PartModel) -> Attachment | None:
        file = given.image or given.file
        if file is None or (given.image and given.file):
            self._fault(path, f"case '{case}': expected either 'image' or 'file'")
            return None
        key = "image" if given.image else "file"
        is_image = given.image is not None
        try:
            return attachment(
                self._root, file, name=given.name, media_type=given.media_type, is_image=is_image
            )
        except (Unusable, OSError) as error:
            self._fault((*path, key), f"case '{case}': {key}: {_reason(error)}")
            return None

    def _files(self, path: KeyPath, model: CaseModel) -> InitialFiles | None:
        if model.files is None:
            return None
        try:
            return initial_files(self._root, model.files)
        except (Unusable, OSError) as error:
            self._fault((*path, "files"), f"case '{model.id}': files: {_reason(error)}")
            return None

    def _commands(
        self, path: KeyPath, model: CaseModel, key: Literal["setup", "reset"]
    ) -> tuple[Preparation, ...]:
        found: list[Preparation] = []
        for index, command in enumerate(getattr(model, key)):
            try:
                found.append(preparation(self._root, command))
            except (Unusable, OSError) as error:
                where = (*path, key, index)
                self._fault(where, f"case '{model.id}': {key}: {_reason(error)}")
        return tuple(found)

    def _user(self, path: KeyPath, model: CaseModel) -> SimulatedUser | None:
        if model.user is None:
            return None
        name = model.user.simulator
        simulator = self._simulators.get(name)
        if simulator is None:
            known = known_names(name, self._simulators)
            self._fault(
                (*path, "user", "simulator"),
                f"case '{model.id}': unknown simulator '{name}'; {known}. Simulators stand in "
                "config/simulators.yaml",
            )
            return None
        return SimulatedUser(name, simulator.identity, model.user.goal)

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


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _answers(model: ScriptedResultModel) -> int:
    given = model.model_fields_set & {"returns", "raises"}
    return len(given)


def _result(answer: ScriptedResultModel | ScriptedToolModel) -> ScriptedResult:
    if "raises" in answer.model_fields_set:
        return ScriptedResult(answer.raises or "", is_error=True)
    value = answer.returns
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ScriptedResult(text)
