"""What was concluded, told to people: the page, the report, the JSON, and ways to send them.

``message`` and ``report`` turn a verdict into words, ``headline`` and ``phrases`` hold the words
that they share, ``wording`` the numbers and ``text`` what keeps hostile text harmless. ``console``
and ``slack`` send.

A notifier is one module here with one class whose ``kind`` is the module's name. Nothing is
imported before it is asked for, so that a report does not load a vendor's client.
"""

from __future__ import annotations

from importlib import import_module


def notifier_classes() -> dict[str, type]:
    """Every notifier found here, by its kind."""
    import pkgutil  # noqa: PLC0415 - the words of this package are used without it

    found: dict[str, type] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name.startswith("_"):
            continue
        module = import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and getattr(value, "kind", None) == module_info.name:
                found[module_info.name] = value
    return found
