"""config/owners.yaml → who is told, and how."""

from __future__ import annotations

from pathlib import Path

from watchkeeper.domain.identity import NAME_RULE, is_name
from watchkeeper.domain.ports import Recipient
from watchkeeper.errors import Fault
from watchkeeper.loading.models import OwnerModel
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import read_mapping

OWNERS_FILE = "config/owners.yaml"


class _Anybody(dict[str, Recipient]):
    """The owners of a file that cannot be read: nobody is unknown, one fault stays one fault."""

    def __contains__(self, name: object) -> bool:
        return True


def load_owners(root: Path, faults: list[Fault]) -> dict[str, Recipient]:
    """The owners of a project by name; what is wrong is appended to ``faults``."""
    document = read_mapping(root / OWNERS_FILE, OWNERS_FILE, faults)
    if document is None or not isinstance(document.value, dict):
        return _Anybody()
    owners: dict[str, Recipient] = {}
    for name, value in document.value.items():
        if not is_name(name):
            faults.append(document.fault((name,), f"owner '{name}': expected {NAME_RULE}"))
        before = len(faults)
        model = validated(OwnerModel, document, (name,), value, faults)
        if model is None:
            owners[name] = Recipient(name, slack_channel="", mention=None)
            continue
        faults.extend(
            document.fault(
                (name, key),
                f"{name}.{key}: reminders and working hours are not supported by this version; "
                "remove the key",
            )
            for key in ("hours", "then")
            if getattr(model, key) is not None
        )
        if len(faults) == before:
            owners[name] = Recipient(name, model.slack_channel, model.mention)
        else:
            owners[name] = Recipient(name, slack_channel="", mention=None)
    return owners
