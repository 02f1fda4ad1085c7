"""Who takes part: how each is installed, and the command that runs one job."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from infra.bench.processes import Command
from infra.bench.server import ANSWER, MODEL

HARNESS = Path(__file__).parent / "harness"
INSTALL_TIMEOUT_S = 900
NODE_SINCE = (22, 22)


class NotInstalled(Exception):
    """A peer that is not here; its text says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """What everyone has to do: every question ``repeats`` times, each in ``rounds`` rounds."""

    url: str
    questions: tuple[str, ...]
    repeats: int
    rounds: int
    concurrency: int
    model: str = MODEL
    answer: str = ANSWER

    @property
    def trials(self) -> int:
        """How many trials that makes."""
        return len(self.questions) * self.repeats

    @property
    def calls(self) -> int:
        """How often the model is asked if nothing is asked twice."""
        return self.trials * self.rounds


class Contestant(Protocol):
    """A program that runs trials."""

    name: str

    def install(self) -> None:
        """Installs it from its registry, unless it is there already.

        Raises:
            NotInstalled: It cannot be.
        """
        ...

    def versions(self) -> dict[str, str]:
        """What is measured, by package."""
        ...

    def command(self, job: Job, folder: Path) -> Command:
        """What runs a job, with its files written into an empty folder."""
        ...

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """A command that loads the SDK, and one that starts the interpreter alone."""
        ...


class Watchkeeper:
    """This repository's own command, as it is now."""

    name = "watchkeeper"

    def install(self) -> None:
        """Nothing: it runs in the interpreter that runs this."""

    def versions(self) -> dict[str, str]:
        """Ours and the SDK's."""
        return {name: metadata.version(name) for name in ("watchkeeper", "anthropic")}

    def command(self, job: Job, folder: Path) -> Command:
        """``watchkeeper run`` on a project written for the job."""
        write_project(job, folder)
        words = [sys.executable, "-m", "watchkeeper", "run", "bench", "-e", "agent", "--json"]
        return Command(words, folder, {"BENCH_KEY": "bench-key-of-no-one"})

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """In the interpreter that runs this."""
        return [sys.executable, "-c", "import anthropic"], [sys.executable, "-c", ""]


class SdkAlone:
    """The yardstick: the SDK's calls without a program around them."""

    name = "(the SDK alone)"

    def install(self) -> None:
        """Nothing: it runs in the interpreter that runs this."""

    def versions(self) -> dict[str, str]:
        """The SDK's."""
        return {"anthropic": metadata.version("anthropic")}

    def command(self, job: Job, folder: Path) -> Command:
        """The agent of the Python peers, asked directly."""
        for name in ("sdk_alone.py", "agent.py"):
            shutil.copy(HARNESS / name, folder)
        return Command([sys.executable, "sdk_alone.py"], folder, _variables(job, folder))

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """In the interpreter that runs this."""
        return [sys.executable, "-c", "import anthropic"], [sys.executable, "-c", ""]


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
        return Command(words, folder, _variables(job, folder))

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
        return Command(words, folder, {**variables, **_variables(job, folder)})

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


def write_project(job: Job, folder: Path, endpoint: Mapping[str, object] | None = None) -> None:
    """A Watchkeeper project for a job; ``endpoint`` takes the place of the model's."""
    (folder / "config" / "suites").mkdir(parents=True)
    tools = [] if job.rounds == 1 else ["lookup"]
    (folder / "bench_tools.py").write_text(
        '"""The one tool."""\n\n\nasync def lookup(id: int) -> str:\n'
        '    """Looks something up."""\n    return f"found {id}"\n\n\n'
        f"TOOLS = [{', '.join(tools)}]\n"
    )
    model = {
        "kind": "anthropic",
        "model": job.model,
        "api_key": "env:BENCH_KEY",
        "base_url": job.url,
        "max_tokens": 1024,
        **({"harness": {"tools": "bench_tools:TOOLS"}} if tools else {}),
    }
    common = {"owner": "team", "suites": ["bench"], "concurrency": job.concurrency}
    cases = [
        {"id": f"case-{at}", "category": "facts", "input": one, "expect": {"must_mention": "yes"}}
        for at, one in enumerate(job.questions)
    ]
    files: dict[str, object] = {
        "watchkeeper.yaml": {"store": "file:./store", "timezone": "UTC", "platform_owner": "team"},
        "owners.yaml": {"team": {}},
        "endpoints.yaml": {"endpoints": {"agent": {**(endpoint or model), **common}}},
        "suites/bench.yaml": {
            "suite": "bench",
            "claim": "Answers yes.",
            "owner": "team",
            "trials": job.repeats,
            "categories": {"facts": {"gate": 0.5, "action": "report"}},
            "cases": cases,
        },
    }
    for name, value in files.items():
        # JSON is YAML.
        (folder / "config" / name).write_text(json.dumps(value, indent=1))


def _variables(job: Job, folder: Path) -> dict[str, str]:
    path = folder / "job.json"
    path.write_text(json.dumps(asdict(job)))
    return {
        "BENCH_JOB": str(path),
        "ANTHROPIC_API_KEY": "bench",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_DISABLE_DOTENV": "1",
        "DEEPEVAL_NO_INSPECT_PROMPT": "1",
        "INSPECT_LOG_DIR": str(folder / "logs"),
    }


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
