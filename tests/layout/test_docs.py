"""The pages in docs/ name everything that can be written or asked, and lead nowhere wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import duckdb
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

from tests.layout.conftest import Repository
from watchkeeper.adapters import _script, adapter_kinds, adapter_module
from watchkeeper.cli.main import app
from watchkeeper.loading import models, suite_models
from watchkeeper.store import tables
from watchkeeper.store.mentions import made_name
from watchkeeper.store.statements import statements

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path for name in ("*.md", "docs/**/*.md", "infra/**/*.md") for path in ROOT.glob(name)
)


_WAYS: dict[object, str] = {dict: ".<name>", list: "[]"}


class Key(NamedTuple):
    """A key of a file as its page writes it, and its default: ``None`` where there is none."""

    path: str
    default: str | None


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Every key of a model that holds a plain value, dotted, and the keys inside the others."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{name}"
        inner, mark = _inner(info.annotation)
        if inner is None:
            yield Key(path, _default(info))
        else:
            yield from _keys(inner, f"{path}{mark}.")


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside an annotation, and how a page writes the way to it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    arguments = get_args(annotation)
    for argument in arguments:
        inner, mark = _inner(argument)
        if inner is None:
            continue
        return inner, f"{_WAYS.get(get_origin(annotation), '')}{mark}"
    return None, ""


def _default(info: FieldInfo) -> str | None:
    value = info.default
    if info.is_required() or value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def _chapter(page: str, heading: str) -> str:
    """The prose below a heading, down to the next one of its level or above."""
    text = "\n" + _prose(ROOT / "docs" / page)
    level = len(heading) - len(heading.lstrip("#"))
    start = text.index(f"\n{heading}\n") + 1
    following = re.search(rf"^#{{1,{level}}} ", text[start + len(heading) :], re.MULTILINE)
    return text[start : start + len(heading) + following.start() if following else None]


class _Simulators(BaseModel):
    """The whole of config/simulators.yaml."""

    simulators: dict[str, models.SimulatorModel]


_MODELS: list[tuple[type[BaseModel], str, str]] = [
    (models.ProjectModel, "configuration.md", "## config/watchkeeper.yaml"),
    (models.OwnerModel, "configuration.md", "## config/owners.yaml"),
    (models.EndpointModel, "configuration.md", "## config/endpoints.yaml"),
    *(
        (adapter_module(kind).Settings, "configuration.md", f"### kind: {kind}")
        for kind in adapter_kinds()
    ),
    (suite_models.SuiteModel, "configuration.md", "## config/suites/*.yaml"),
    (suite_models.CaseModel, "configuration.md", "### A case"),
    (_Simulators, "configuration.md", "## config/simulators.yaml"),
    (models.PricesModel, "configuration.md", "## config/prices.yaml"),
    (_script.Script, "scripted-agents.md", "# Scripted agents"),
]


@pytest.mark.parametrize(
    ("model", "page", "heading"), _MODELS, ids=[heading for _, _, heading in _MODELS]
)
def test_every_key_has_its_row(model: type[BaseModel], page: str, heading: str) -> None:
    """A key that a file may hold is described, with the default that the code has."""
    rows: dict[str, str] = dict(
        re.findall(r"^\| `([^`]+)` \|(.*)$", _chapter(page, heading), re.MULTILINE)
    )
    wrong = [
        key
        for key in _keys(model)
        if key.path not in rows
        or (key.default is not None and f"`{key.default}`" not in rows[key.path])
    ]
    assert wrong == []


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every command that does something, with its long options."""
    below = getattr(command, "commands", None)
    if below is None:
        yield (
            name.strip(),
            [
                option
                for one in command.params
                for option in (*one.opts, *one.secondary_opts)
                if option.startswith("--") and option != "--help"
            ],
        )
        return
    for word, one in below.items():
        yield from _commands(one, f"{name} {word}")


def test_every_command_and_option_is_described() -> None:
    """What the command line can do stands on its page."""
    page = (ROOT / "docs/cli.md").read_text()
    missing = []
    for name, options in _commands(get_command(app)):
        if f"`watchkeeper {name}" not in page:
            missing.append(name)
        heading = f"## {name}" if f"\n## {name}\n" in page else f"## {name.split()[0]}"
        chapter = _chapter("cli.md", heading)
        missing += [f"{name} {option}" for option in options if option not in chapter]
    assert missing == []


def _connection() -> duckdb.DuckDBPyConnection:
    connection = tables.connect()
    tables.create_tables(connection)
    tables.create_views(connection)
    return connection


def test_every_view_is_described_with_its_columns() -> None:
    """Whoever asks in SQL finds the grain and every column of every view."""
    connection = _connection()
    views = connection.execute(
        "select view_name from duckdb_views() where not internal order by 1"
    ).fetchall()
    missing = []
    for (view,) in views:
        chapter = _chapter("sql.md", f"### {view}")
        named = set(re.findall(r"`(\w+)`", chapter))
        missing += [
            f"{view}.{name}" for name in tables.columns_of(connection, view) if name not in named
        ]
    assert missing == []


def test_every_table_and_named_query_is_described() -> None:
    """The tables below the views, and the queries with their parameters."""
    page = (ROOT / "docs/sql.md").read_text()
    made = [made_name(one) for one in statements("schema").values()]
    assert [name for name in made if f"`{name}`" not in page] == []
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", _chapter("sql.md", "## Named queries"), re.M))
    missing = [
        (name, parameter)
        for name, statement in statements("queries").items()
        for parameter in ("", *re.findall(r"\$(\w+)", statement.split("\n", 1)[0]))
        if name not in rows or (parameter and f"`{parameter}`" not in rows[name])
    ]
    assert missing == []


def _anchors(page: Path) -> set[str]:
    """The anchors that headings get where a page is rendered."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Every link within the repository names a file that is there, and a heading of it."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def test_sections_that_the_code_names_exist(repository: Repository) -> None:
    """A docstring that points to a page points to a heading of it."""
    named = {
        (repository.name(path), found[0], found[1])
        for path in repository.sources()
        for found in re.findall(r"\b(docs/[\w./-]+\.md)(?:#([\w-]+))?", path.read_text())
    }
    broken = [
        one
        for one in sorted(named)
        if not (ROOT / one[1]).is_file() or (one[2] and one[2] not in _anchors(ROOT / one[1]))
    ]
    assert named
    assert broken == []
