"""Where the project is, and where its store is, before anything else of it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchkeeper.errors import ConfigError, UsageError
from watchkeeper.loading.folder import CONFIG_FILE, find_project_root, read_store_url
from watchkeeper.parsing.yaml_source import parse_yaml

DEFAULT = "file:./watchkeeper-data"


def config(folder: Path, text: str) -> Path:
    """A project folder whose only file says this."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).write_bytes(text.encode())
    return folder


def test_the_nearest_project_upward_is_found(tmp_path: Path) -> None:
    """From any folder inside, as git does it."""
    outer = config(tmp_path, "a: 1\n")
    inner = config(tmp_path / "deep/inner", "a: 1\n")
    (inner / "src/agent").mkdir(parents=True)
    assert find_project_root(None, inner / "src/agent") == inner
    assert find_project_root(None, tmp_path / "deep") == outer
    assert find_project_root(outer, inner) == outer


def test_a_folder_without_a_project_is_told(tmp_path: Path) -> None:
    """With what was looked for and how to make one."""
    with pytest.raises(UsageError, match=r"config/watchkeeper.yaml is missing.*watchkeeper init"):
        find_project_root(tmp_path, tmp_path)
    with pytest.raises(UsageError, match=r"no project here or above.*WATCHKEEPER_PROJECT"):
        find_project_root(None, tmp_path)


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("store: file:./records\ntimezone: UTC\n", "file:./records"),
        ("timezone: UTC\nstore: s3://bucket/some/prefix   # ours\n", "s3://bucket/some/prefix"),
        ("timezone: UTC\n", DEFAULT),
        ("# store: file:elsewhere\ntimezone: UTC\n", DEFAULT),
        ('store: "file:./with space"\n', "file:./with space"),
        ("store: file:a#b\n", "file:a#b"),
        ("store: file:a\r\ntimezone: UTC\r\n", "file:a"),
        ("\ufeffstore: file:a\n", "file:a"),
        ("schedule:\n  store: file:inner\n", DEFAULT),
        ('claim: "three\nstore: file:inside\nlines"\n', DEFAULT),
        ("claim: 'three\nstore: file:inside\nlines'\n", DEFAULT),
        ("more: {a: 1,\nstore: file:inside\n}\n", DEFAULT),
        ("more: [a,\nstore: file:inside\n]\n", DEFAULT),
        ("---\nstore: file:a\n", "file:a"),
        ("claim: |\n  store: file:inside a text\nstore: file:a\n", "file:a"),
        ("store: file:a\\b\n", "file:a\\b"),
        ("{store: file:a}\n", "file:a"),
        ('"store": file:a\n', "file:a"),
        ("store:\n  file:a\n", "file:a"),
        ("store: &x file:a\n", "file:a"),
        ("- store\n", DEFAULT),
        ("store: file:a\n  b\n", "file:a b"),
        ("store: file:a\n\n  b\ntimezone: UTC\n", "file:a\nb"),
        ("store: file:a # here\n  # still a comment\ntimezone: UTC\n", "file:a"),
    ],
)
def test_the_store_is_what_yaml_says(text: str, store: str, tmp_path: Path) -> None:
    """However the file is written; the plain way is read without YAML's own reader."""
    assert read_store_url(config(tmp_path, text), None) == store


@pytest.mark.parametrize(
    "text", ["store: 7\n", "store: [a]\n", "store: file:a\nstore: file:b\n", "store: *x\n", ""]
)
def test_a_store_that_is_no_text_is_told(text: str, tmp_path: Path) -> None:
    """With its line, like every fault of a file."""
    with pytest.raises(ConfigError, match=r"^config/watchkeeper\.yaml:[12]: "):
        read_store_url(config(tmp_path, text), None)


def test_a_given_store_needs_no_file(tmp_path: Path) -> None:
    """WATCHKEEPER_STORE takes the place of what the file says."""
    assert read_store_url(tmp_path, "s3://other/place") == "s3://other/place"


STORES = st.sampled_from(["file:./a", "s3://b/p", "file:a b", "file:ä", "file:a#b", "x", 'file:"'])
TEXTS = st.sampled_from(["store: file:x", "a\nstore: file:x", "'", '"', "[", "}", "#", "\t", "%"])
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS | st.text(max_size=8)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(TEXTS, SCALARS, max_size=3)
KEYS = st.sampled_from(["store", "stores", "timezone", "a", " store", "restore: x"])


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    document=st.dictionaries(KEYS, VALUES, max_size=4),
    store=STORES,
    width=st.sampled_from([8, 80]),
    flow=st.sampled_from([True, False, None]),
    style=st.sampled_from([None, '"', "'", "|", ">"]),
)
def test_the_quick_way_never_differs_from_yaml(
    tmp_path: Path, document: dict[str, Any], store: str, width: int, flow: Any, style: Any
) -> None:
    """In whatever style a program wrote the file."""
    text = yaml.safe_dump(
        {**document, "store": store},
        width=width,  # folds texts, so that a line within one may look like a key
        default_flow_style=flow,
        default_style=style,
        sort_keys=True,
        allow_unicode=True,
    )
    value = parse_yaml(text, CONFIG_FILE).value
    assert isinstance(value, dict)
    assert read_store_url(config(tmp_path, text), None) == value["store"]


def test_a_question_loads_neither_yaml_nor_asyncio(tmp_path: Path) -> None:
    """What a command that only reads history would pay for at every start."""
    root = config(tmp_path, f"store: {DEFAULT}\n")
    code = (
        "import sys; sys.argv = ['watchkeeper', 'sql', 'select 1 as one'];"
        "from watchkeeper.cli.main import app; app(standalone_mode=False);"
        "print([name for name in ('yaml', 'asyncio', 'numpy', 'scipy', 'prefect',"
        " 'watchkeeper.domain.verdict', 'watchkeeper.loading.models') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "WATCHKEEPER_PROJECT": str(root)},
    )
    assert done.stdout.splitlines()[-2:] == ["(1 row)", "[]"]
