"""The peers: how each is installed from its registry, and the command that runs one job."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

from infra.bench.contestants import HARNESS, Contestant, Job, Watchkeeper, job_variables
from infra.bench.processes import Command

INSTALL_TIMEOUT_S = 900
NODE_SINCE = (22, 22)


class NotInstalled(Exception):
    """A peer that is not here; its text says why."""


class PythonPeer:
    """A peer from PyPI in an environment of its own, with a harness in its own idiom."""

    def __init__(self, name: str, folder: Path, *, words: tuple[str, ...] = ()) -> None:
        self.name = name
        self.folder = folder / name
        self._words = words

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self) -> None:
        """With the SDK beside it."""
        done = self.folder / "installed"
        if done.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=True)
        _install([str(self._python), "-m", "pip", "install", "--quiet", self.name, "anthropic"])
        done.touch()

    def versions(self) -> dict[str, str]:
        """As its environment says."""
        names = [self.name, "anthropic"]
        asked = f"from importlib.metadata import version as v; print(*map(v, {names!r}))"
        return dict(zip(names, _said([str(self._python), "-c", asked]).split(), strict=True))

    def command(self, job: Job, folder: Path) -> Command:
        """The harness's program, or the peer's own command with the harness's task."""
        harness = HARNESS / f"with_{self.name.replace('-', '_')}.py"
        for path in (harness, HARNESS / "agent.py"):
            shutil.copy(path, folder)
        words = [str(self._python), harness.name]
        if self._words:
            words = [str(self.folder / "bin" / self._words[0]), *self._words[1:], harness.name]
            words += ["--model", f"anthropic/{job.model}", "--model-base-url", job.url]
            words += ["--max-connections", str(job.concurrency)]
            words += ["--max-samples", str(job.concurrency)]
            words += ["--epochs", str(job.repeats), "--max-tokens", "1024", "--display", "none"]
        return Command(words, folder, job_variables(job, folder))

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """In its own environment."""
        python = str(self._python)
        return [python, "-c", "import anthropic"], [python, "-c", ""]


class Promptfoo:
    """The peer from npm; a Node that is new enough comes from there too, where there is none."""

    name = "promptfoo"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name

    def install(self) -> None:
        """The newest promptfoo."""
        if (self.folder / "installed").exists():
            return
        npm = shutil.which("npm")
        if npm is None:
            raise NotInstalled("npm is not on this machine")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "package.json").write_text('{"private": true}')
        install = [npm, "install", "--no-audit", "--no-fund"]
        if not _is_new_enough(shutil.which("node")):
            system = {"Linux": "linux", "Darwin": "darwin"}.get(platform.system(), "unknown")
            chip = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "unknown")
            _install([*install, f"node-{system}-{chip}@{NODE_SINCE[0]}"], self.folder)
        # npm runs in the Node that promptfoo will run in, or it picks an older promptfoo.
        path = f"{Path(self._node).parent}{os.pathsep}{os.environ['PATH']}"
        _install([*install, f"{self.name}@latest"], self.folder, {"PATH": path})
        (self.folder / "installed").touch()

    def versions(self) -> dict[str, str]:
        """As installed."""
        read = {
            name: json.loads((self.folder / "node_modules" / name / "package.json").read_text())
            for name in (self.name, "@anthropic-ai/sdk")
        }
        found = {name: str(package["version"]) for name, package in read.items()}
        return {**found, "node": _said([self._node, "--version"])}

    @property
    def _node(self) -> str:
        own = sorted(self.folder.glob("node_modules/node-*-*/bin/node"))
        return str(own[0]) if own else shutil.which("node") or "node"

    def command(self, job: Job, folder: Path) -> Command:
        """``promptfoo eval``: its own provider for one round, the harness's for more."""
        # Node looks for the SDK upward from the provider's file.
        shutil.copy(HARNESS / "agent.mjs", self.folder / "agent.mjs")
        direct = {
            "id": f"anthropic:messages:{job.model}",
            "config": {"apiBaseUrl": job.url, "apiKey": "bench", "max_tokens": 1024},
        }
        agent = {"id": f"file://{self.folder / 'agent.mjs'}"}
        wanted = [{"type": "contains", "value": job.answer}]
        config = {
            "prompts": ["{{question}}"],
            "providers": [direct if job.rounds == 1 else agent],
            "tests": [{"vars": {"question": one}, "assert": wanted} for one in job.questions],
        }
        (folder / "promptfooconfig.json").write_text(json.dumps(config))
        entry = self.folder / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
        words = [self._node, str(entry), "eval", "-c", "promptfooconfig.json", "--no-cache"]
        words += ["-j", str(job.concurrency), "--repeat", str(job.repeats)]
        words += ["--no-progress-bar", "--no-table", "-o", "results.json"]
        quiet = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING")
        variables = {f"PROMPTFOO_DISABLE_{name}": "1" for name in quiet}
        variables["PROMPTFOO_CONFIG_DIR"] = str(folder / "state")
        return Command(words, folder, {**variables, **job_variables(job, folder)})

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """The SDK as a module of Node's."""
        sdk = self.folder / "node_modules" / "@anthropic-ai" / "sdk" / "index.mjs"
        load = f"await import({json.dumps(str(sdk))})"
        node = [self._node, "--input-type=module", "-e"]
        return [*node, load], [*node, ""]


def contestants(folder: Path) -> tuple[Contestant, ...]:
    """Everyone, ours first; environments of their own lie in a folder."""
    return (
        Watchkeeper(),
        Promptfoo(folder),
        PythonPeer("deepeval", folder),
        PythonPeer("pydantic-evals", folder),
        PythonPeer("inspect-ai", folder, words=("inspect", "eval")),
    )


def _install(
    words: list[str], folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> None:
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            timeout=INSTALL_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "DO_NOT_TRACK": "1", **(variables or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{type(error).__name__}: {error}") from error
    if ended.returncode != 0:
        raise NotInstalled(
            f"{' '.join(words[:3])} ended with {ended.returncode}: "
            f"{(ended.stderr or ended.stdout)[-400:]}"
        )


def _said(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _is_new_enough(node: str | None) -> bool:
    if node is None:
        return False
    version = _said([node, "--version"]).lstrip("v").split(".")
    return (int(version[0]), int(version[1])) >= NODE_SINCE
