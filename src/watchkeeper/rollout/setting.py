"""What a trial finds around it: a workspace where it needs one, and its tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.case import Case
from watchkeeper.domain.endpoint import Endpoint
from watchkeeper.place import Place, at_place
from watchkeeper.rollout.mcp_tools import open_mcp_tools
from watchkeeper.rollout.toolbox import Tool, Toolbox
from watchkeeper.rollout.workspace import Workspace, needs_workspace, prepared


@dataclass(frozen=True, slots=True)
class Setting:
    """One trial's surroundings."""

    workspace: Workspace | None
    toolbox: Toolbox

    @property
    def path(self) -> Path | None:
        """The workspace's folder."""
        return self.workspace.path if self.workspace is not None else None


@dataclass(frozen=True, slots=True)
class Stage:
    """Prepares the settings of one run's trials, each isolated from every other.

    Args:
        endpoint: Whose MCP servers every trial starts for itself.
        config_hash: Its configuration hash with what they offered when the run was planned.
        tools: Of the endpoint's Python module.
        folder: Where workspaces are made.
        inherited: The environment of this process.
        always: Whether the endpoint's kind needs a workspace for every case.
        tell: Is given what could not be reset or removed.
    """

    endpoint: Endpoint
    config_hash: str
    tools: Mapping[str, Tool]
    folder: Path
    inherited: Mapping[str, str]
    always: bool
    tell: Callable[[str], None]

    @contextlib.asynccontextmanager
    async def set_for(self, case: Case, trial_id: str) -> AsyncIterator[Setting]:
        """The setting of one trial; what it held is gone afterwards.

        Raises:
            EndpointFault: It could not be prepared.
        """
        async with contextlib.AsyncExitStack() as stack:
            workspace: Workspace | None = None
            if self.always or needs_workspace(case):
                workspace = await stack.enter_async_context(
                    prepared(
                        case,
                        trial_id,
                        folder=self.folder,
                        inherited=self.inherited,
                        tell=self.tell,
                    )
                )
            path = workspace.path if workspace is not None else None
            offered = await stack.enter_async_context(
                open_mcp_tools(self.endpoint, self.inherited, path, self.config_hash)
            )
            stack.enter_context(at_place(Place(trial_id, case.id, path)))
            yield Setting(workspace, Toolbox(case, {**self.tools, **offered}))
