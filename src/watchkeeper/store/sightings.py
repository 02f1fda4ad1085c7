"""What was seen of endpoints, append-only, and which of it was announced.

sightings/<endpoint>/<number>-<id>.json          one change after another
sightings-announced/<endpoint>/<id>.json         the change was handed on
"""

from __future__ import annotations

import json
from datetime import datetime

from watchkeeper.domain.sighting import Sighting
from watchkeeper.errors import RecordUnreadable
from watchkeeper.store.objects.port import ObjectMissing, ObjectStore
from watchkeeper.store.payloads import sighting_from_json, to_json


class Sightings:
    """The sightings in one store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def last(self, endpoint: str) -> Sighting | None:
        """The newest sighting of an endpoint; ``None`` where it was never seen.

        Two watchers that saw different things at the same time wrote the same number; both hold,
        and the one that was seen later is the newest.
        """
        keys = [info.key for info in self._objects.list(f"sightings/{endpoint}/")]
        if not keys:
            return None
        newest = keys[-1].rpartition("/")[2].partition("-")[0]
        same = [key for key in keys if key.rpartition("/")[2].startswith(f"{newest}-")]
        return max((self._read(key) for key in same), key=lambda one: (one.seen_at, one.id))

    def find(self, endpoint: str, sighting_id: str) -> Sighting | None:
        """One sighting by its id."""
        for info in self._objects.list(f"sightings/{endpoint}/"):
            if info.key.endswith(f"-{sighting_id}.json"):
                return self._read(info.key)
        return None

    def put(self, sighting: Sighting) -> Sighting:
        """The sighting that holds: this one, or the same as somebody else saw it before."""
        key = f"sightings/{sighting.endpoint}/{sighting.number:06d}-{sighting.id}.json"
        data = json.dumps(to_json(sighting), ensure_ascii=False, sort_keys=True).encode()
        return sighting if self._objects.put_if_absent(key, data) else self._read(key)

    def is_announced(self, sighting: Sighting) -> bool:
        """Whether the change was handed on to whoever acts on it."""
        try:
            self._objects.get(_announced_key(sighting))
        except ObjectMissing:
            return False
        return True

    def put_announced(self, sighting: Sighting, at: datetime) -> None:
        """Notes that the change was handed on."""
        data = json.dumps({"id": sighting.id, "at": at.isoformat()}, sort_keys=True).encode()
        self._objects.put_if_absent(_announced_key(sighting), data)

    def _read(self, key: str) -> Sighting:
        try:
            value = json.loads(self._objects.get(key))
        except ValueError as error:
            raise RecordUnreadable(
                f"{self._objects.url}/{key} is not JSON ({error}); move it away, and what is "
                "served is seen anew"
            ) from error
        if not isinstance(value, dict):
            raise RecordUnreadable(f"{self._objects.url}/{key} holds no JSON object")
        return sighting_from_json(value)


def _announced_key(sighting: Sighting) -> str:
    return f"sightings-announced/{sighting.endpoint}/{sighting.id}.json"
