"""What everyone has to do, and how Watchkeeper and the SDK alone do it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from infra.bench.processes import Command
from infra.bench.server import ANSWER, MODEL

HARNESS = Path(__file__).parent / "harness"


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
            NotInstalled: It cannot be (peers.py).
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
        return Command([sys.executable, "sdk_alone.py"], folder, job_variables(job, folder))

    def sdk_import(self) -> tuple[list[str], list[str]]:
        """In the interpreter that runs this."""
        return [sys.executable, "-c", "import anthropic"], [sys.executable, "-c", ""]


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


def job_variables(job: Job, folder: Path) -> dict[str, str]:
    """The variables of a harness, with the job written into a file that one of them names."""
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
