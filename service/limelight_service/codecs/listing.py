"""The answer to ListModels, for every encoding: kept until something changes."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from limelight_service.frontend.call import Call
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Model
from limelight_service.repository.catalogue import State, VersionStatus
from limelight_service.security.caller import Globs

T = TypeVar("T")

_MOST_KEPT = 64

_Entry = tuple[str, int, State, str, bool, str]


class Listing(Generic[T]):
    """Every version that a caller may know of. encode: one; join: the answer of all of them."""

    def __init__(
        self, core: Core, encode: Callable[[VersionStatus[Model]], T], join: Callable[[Sequence[T]], bytes]
    ) -> None:
        self._core = core
        self._encode = encode
        self._join = join
        self._changes = -1
        self._entries: dict[_Entry, T] = {}
        self._responses: dict[Globs, bytes] = {}  # by the models that a caller may know of

    def response(self, call: Call) -> bytes:
        """Encode the list for a caller. Raises: ModelUnavailableError while no model is known yet."""
        catalogue = self._core.models.catalogue
        if self._changes != catalogue.changes:
            known, statuses = self._entries, catalogue.statuses()
            keys = [_entry(status) for status in statuses]
            self._entries = {
                key: known.get(key) or self._encode(status) for key, status in zip(keys, statuses, strict=True)
            }
            self._responses.clear()
            self._changes = catalogue.changes
        if not self._entries:
            catalogue.check_complete()
        models = call.caller.models
        response = self._responses.get(models)
        if response is None:
            if len(self._responses) >= _MOST_KEPT:
                self._responses.clear()
            response = self._join([entry for key, entry in self._entries.items() if call.caller.sees(key[0])])
            self._responses[models] = response
        return response


def _entry(status: VersionStatus[Model]) -> _Entry:
    """Give what decides an entry, without the model itself, which is to be freed when it is unloaded."""
    digest = "" if status.model is None else status.model.schema.served.digest
    return status.name, status.version, status.state, status.reason, status.is_default, digest
