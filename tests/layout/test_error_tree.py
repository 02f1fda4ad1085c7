"""The tree drawn at the top of errors.py is the tree of classes."""

from __future__ import annotations

import inspect
import re

from watchkeeper import errors

_BRANCH = re.compile(r"(?P<indent>[ │]*)(?:[├└]── )?(?P<name>[A-Z]\w+)  +\S")


def _drawn() -> dict[str, str | None]:
    """Each class in the drawing with its parent, told by how far it is indented."""
    parents: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        found = _BRANCH.match(line)
        if found is None:
            continue
        depth = found.start("name")
        above = [(indent, name) for indent, name in above if indent < depth]
        parents[found["name"]] = above[-1][1] if above else None
        above.append((depth, found["name"]))
    return parents


def test_the_drawing_names_every_error_below_its_parent() -> None:
    """Whoever catches an error finds in the drawing what else it catches."""
    classes = {
        name: one
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == errors.__name__
    }
    parents = {
        name: one.__bases__[0].__name__ if one is not errors.WatchkeeperError else None
        for name, one in classes.items()
    }
    assert _drawn() == parents


def test_the_exit_codes_of_the_drawing_are_those_of_the_classes() -> None:
    """A script that reads the exit code is told the same as a person who reads the drawing."""
    said = dict(re.findall(r"(\w+) +exit (\d)", errors.__doc__ or ""))
    assert said == {
        "UsageError": str(errors.UsageError.exit_code),
        "BrokenEvaluation": str(errors.BrokenEvaluation.exit_code),
    }
