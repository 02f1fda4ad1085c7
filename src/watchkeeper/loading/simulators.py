"""config/simulators.yaml → the models that play users; the file may be missing."""

from __future__ import annotations

from pathlib import Path

from watchkeeper.domain.endpoint import Endpoint, Harness
from watchkeeper.domain.identity import NAME_RULE, content_hash, is_name
from watchkeeper.domain.simulator import Simulator
from watchkeeper.errors import ConfigError, Fault
from watchkeeper.loading.kinds import kind_settings
from watchkeeper.loading.models import SimulatorModel
from watchkeeper.parsing.suggest import known_names
from watchkeeper.parsing.validation import validated
from watchkeeper.parsing.yaml_source import Document, KeyPath, read_mapping, read_text

SIMULATORS_FILE = "config/simulators.yaml"
MOST_AT_ONCE = 1000  # trials bound what simulators are asked at the same time
_COMMON = frozenset(SimulatorModel.model_fields)


def load_simulators(root: Path, faults: list[Fault]) -> dict[str, Simulator]:
    """The simulated users of a project by name; none where the file is missing.

    Args:
        root: The project folder.
        faults: Receives everything that is wrong.
    """
    if not (root / SIMULATORS_FILE).exists():
        return {}
    document = read_mapping(root / SIMULATORS_FILE, SIMULATORS_FILE, faults)
    top = document.value if document is not None else None
    if document is None or not isinstance(top, dict):
        return {}
    for key in top:
        if key != "simulators":
            message = f"unknown key '{key}'; {known_names(key, ['simulators'])}"
            faults.append(document.fault((key,), message))
    listed = top.get("simulators")
    if not isinstance(listed, dict):
        message = "expected the key 'simulators' with a mapping by name"
        faults.append(document.fault(("simulators",), message))
        return {}
    found: dict[str, Simulator] = {}
    for name, value in listed.items():
        path: KeyPath = ("simulators", name)
        if not is_name(name):
            faults.append(document.fault(path, f"simulator '{name[:80]}': expected {NAME_RULE}"))
            continue
        simulator = _simulator(root, document, name, value, faults)
        if simulator is not None:
            found[name] = simulator
    return found


def _simulator(
    root: Path, document: Document, name: str, value: object, faults: list[Fault]
) -> Simulator | None:
    path: KeyPath = ("simulators", name)
    if not isinstance(value, dict):
        faults.append(document.fault(path, f"simulator '{name}': expected a mapping of keys"))
        return None
    common = {key: item for key, item in value.items() if key in _COMMON}
    model = validated(SimulatorModel, document, path, common, faults)
    settings = kind_settings(document, path, name, value, _COMMON, faults)
    if model is None or settings is None:
        return None
    if getattr(settings, "owns_loop", False):
        message = f"kind: {model.kind} has a prompt of its own; a simulated user is given one"
        faults.append(document.fault((*path, "kind"), message))
        return None
    try:
        prompt = read_text(root / model.prompt, model.prompt)
    except ConfigError as error:
        message = f"prompt: {error.faults[0].message}: {model.prompt}"
        faults.append(document.fault((*path, "prompt"), message))
        return None
    location = f"{document.file}:{document.line_of(path)}"
    dumped = settings.model_dump(mode="json")
    requested = dumped.get("model")
    endpoint = Endpoint(
        name=name,
        kind=model.kind,
        owner="",
        env="simulator",
        requested_model=requested if isinstance(requested, str) else None,
        suites=(),
        settings=settings,
        config_hash=content_hash([model.kind, dumped, prompt]),
        harness=Harness(system=prompt),
        concurrency=MOST_AT_ONCE,
        call_retries=model.call_retries,
        location=location,
    )
    return Simulator(
        name=name,
        endpoint=endpoint,
        max_turns=model.max_turns,
        ends_with=model.ends_with,
        token_limit=model.limits.tokens,
        cost_limit_usd=model.limits.cost_usd,
        location=location,
    )
