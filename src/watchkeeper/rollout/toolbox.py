"""The tools of one trial: those that the case scripts, and those of the endpoint's harness."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from watchkeeper.domain.case import Case, ScriptedTool
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.domain.ports import ToolSpec
from watchkeeper.domain.trajectory import ToolCall, call_status
from watchkeeper.errors import EndpointFault, UsageError

MAX_RESULT_CHARACTERS = 1_000_000
_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


class ToolFailed(Exception):
    """The tool itself says that it failed; the text is what the model is shown."""


class Tool(Protocol):
    """A tool that a trial may call."""

    @property
    def spec(self) -> ToolSpec:
        """What a model is told of it."""
        ...

    async def call(self, arguments: Mapping[str, object]) -> object:
        """What it returns.

        Raises:
            EndpointFault: What stands behind the tool failed: the trial cannot go on.
            Exception: Anything else is an error result, for the agent to deal with.
        """
        ...


@dataclass(frozen=True)
class PythonTool:
    """A tool of the team's own harness: a function, sync or async."""

    spec: ToolSpec
    function: Callable[..., Any]
    arguments: TypeAdapter[Any]

    async def call(self, arguments: Mapping[str, object]) -> object:
        """What the function returns; sync functions run in a thread."""
        bound = ArgsKwargs((), dict(arguments))
        if inspect.iscoroutinefunction(self.function):
            return await self.arguments.validate_python(bound)
        value = await asyncio.to_thread(self.arguments.validate_python, bound)
        return await value if inspect.isawaitable(value) else value


def endpoint_tool_names(endpoint: Endpoint, root: Path) -> frozenset[str] | None:
    """The tools that an endpoint offers by itself, or ``None`` where that cannot be known.

    Raises:
        UsageError: The module of its tools cannot be imported.
    """
    offered = getattr(endpoint.settings, "offered_tools", None)
    names = offered(root) if callable(offered) else frozenset()
    servers = endpoint.harness.mcp
    if names is None or any(server.tools is None for server in servers):
        return None
    listed = (name for server in servers for name in server.tools or ())
    python = load_python_tools(endpoint.harness.tools, root)
    return frozenset(names) | frozenset(listed) | frozenset(python)


def load_python_tools(reference: str | None, root: Path) -> dict[str, PythonTool]:
    """The tools of ``package.module:NAME``, by name; none where nothing is referenced.

    Args:
        reference: Where a list of functions, or of mappings with ``name``, ``description``,
            ``input_schema``, ``function`` and ``silent``, stands.
        root: The project folder; modules are looked for there too.

    Raises:
        UsageError: The module does not import, or the name holds something else.
    """
    if reference is None:
        return {}
    module_name, _, name = reference.partition(":")
    if str(root) not in sys.path:
        sys.path.append(str(root))
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"harness.tools: module '{module_name}' does not import: "
            f"{type(error).__name__}: {str(error)[:200]}"
        ) from error
    declared = getattr(module, name, None)
    if not isinstance(declared, Sequence) or isinstance(declared, str):
        raise UsageError(f"harness.tools: '{reference}' is not a list of tools")
    tools: dict[str, PythonTool] = {}
    for item in declared:
        tool = _python_tool(item, reference)
        if tool.spec.name in tools:
            raise UsageError(f"harness.tools: '{reference}' has two tools '{tool.spec.name}'")
        tools[tool.spec.name] = tool
    return tools


def _python_tool(item: object, reference: str) -> PythonTool:
    if callable(item):
        function, given = item, {}
    elif isinstance(item, Mapping) and callable(item.get("function")):
        function, given = item["function"], dict(item)
    else:
        raise UsageError(
            f"harness.tools: '{reference}' holds {item!r:.80}; expected a function, or a mapping "
            "with 'function'"
        )
    try:
        arguments: TypeAdapter[Any] = TypeAdapter(cast("Any", function))
        schema = given.get("input_schema") or arguments.json_schema()
    except Exception as error:
        raise UsageError(
            f"harness.tools: the arguments of {getattr(function, '__name__', function)!r} cannot "
            f"be described: {str(error)[:200]}"
        ) from error
    spec = ToolSpec(
        name=str(given.get("name") or getattr(function, "__name__", "tool")),
        description=str(given.get("description") or inspect.getdoc(function) or ""),
        input_schema=schema,
        is_silent=bool(given.get("silent", False)),
    )
    return PythonTool(spec, function, arguments)


class Toolbox:
    """The tools that one trial may call; a case's scripted tool takes the place of a real one."""

    def __init__(self, case: Case, tools: Mapping[str, Tool]) -> None:
        self._scripted: dict[str, ScriptedTool] = {tool.name: tool for tool in case.tools}
        self._real = {name: tool for name, tool in tools.items() if name not in self._scripted}
        self._calls: dict[str, int] = {}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        scripted = tuple(
            ToolSpec(tool.name, tool.description, tool.input_schema or _ANY_OBJECT, tool.is_silent)
            for tool in self._scripted.values()
        )
        return (*(tool.spec for tool in self._real.values()), *scripted)

    async def answer(self, wanted: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The wanted calls with their results, in the same order.

        Scripted results are given in the order of the calls; real tools run at the same time.
        A tool that raises, does not exist or refuses its arguments gives an error result: that
        is for the agent to deal with.

        Raises:
            EndpointFault: What stands behind a tool failed; no other call goes on.
        """
        pending = [asyncio.ensure_future(self._answer(call)) for call in wanted]
        try:
            return tuple(await asyncio.gather(*pending))
        except EndpointFault:
            for one in pending:
                one.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            raise

    async def _answer(self, call: ToolCall) -> ToolCall:
        scripted = self._scripted.get(call.tool)
        if scripted is not None:
            seen = self._calls.get(call.tool, 0)
            self._calls[call.tool] = seen + 1
            result = scripted.results[min(seen, len(scripted.results) - 1)]
            return _answered(call, result.text, result.is_error, scripted.is_silent, 0.0)
        tool = self._real.get(call.tool)
        if tool is None:
            return _answered(call, f"there is no tool '{call.tool}'", True, False, 0.0)
        started = time.monotonic()
        try:
            value = await tool.call(call.arguments)
            text, is_error = _as_text(value), False
        except EndpointFault:
            raise
        except ToolFailed as error:
            text, is_error = str(error), True
        except ValidationError as error:
            text, is_error = f"the arguments do not fit: {error}", True
        # A tool that raises, or would end the program, is the agent's to handle.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            text, is_error = f"{type(error).__name__}: {error}", True
        elapsed_ms = (time.monotonic() - started) * 1000
        return _answered(call, text, is_error, tool.spec.is_silent, elapsed_ms)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _answered(
    call: ToolCall, text: str, is_error: bool, is_silent: bool, latency_ms: float
) -> ToolCall:
    if len(text) > MAX_RESULT_CHARACTERS:
        left_out = len(text) - MAX_RESULT_CHARACTERS
        text = f"{text[:MAX_RESULT_CHARACTERS]}… (+{left_out} characters)"
    return replace(
        call,
        result=text,
        status=call_status(text, is_error=is_error),
        is_silent=is_silent or call.is_silent,
        latency_ms=latency_ms,
        is_error=is_error,
    )
