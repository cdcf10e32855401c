"""The desired state: which versions of which models are to be loaded. A restarted engine gets this, and no new scan."""

import asyncio
from pathlib import Path

from limelight_bundle.errors import BundleError
from limelight_service.repository.catalogue import no_version_in_repository
from limelight_service.repository.folders import Folders, given, scan
from limelight_service.repository.skipped import log_skipped
from limelight_service.settings import Settings


class DesiredState:
    """Folders by name and version. For one event loop.

    Raises: BundleError for a checkpoint that nobody imported.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.checkpoint:
            raise BundleError(f"only `limelight serve` imports the checkpoint {settings.checkpoint}; give a model")
        self._repository = Path(settings.repository) if settings.repository else None
        self._models = settings.models
        self.folders: dict[tuple[str, int], Path] = {}

    async def find(self) -> Folders:
        """Look at the start: every version that there is is to be loaded.

        Raises: LimelightError as `there`.
        """
        self.folders = dict(await self.there())
        if self._repository is not None:
            await asyncio.to_thread(log_skipped, self._repository, self.folders)
        return self.folders

    async def folder(self, name: str, version: int) -> Path:
        """Find the folder of a version that may have come since.

        Raises: ModelNotFoundError where there is none; LimelightError where the repository cannot be read.
        """
        found = (await self.there()).get((name, version))
        if found is None:
            raise no_version_in_repository(name, version)
        return found

    async def newest(self, name: str) -> int:
        """Find the highest version of a model in the folder.

        Raises: ModelNotFoundError where there is none; LimelightError where the repository cannot be read.
        """
        found = max((version for each, version in await self.there() if each == name), default=0)
        if not found:
            raise no_version_in_repository(name, 0)
        return found

    async def there(self) -> Folders:
        """Find every folder that the repository has, and those that are given as one model each.

        Raises: LimelightError where one cannot be read or has no model, or a model is there twice.
        """
        return await asyncio.to_thread(self._there)

    def add(self, name: str, version: int, folder: Path) -> None:
        """Have a version loaded from now on."""
        self.folders[name, version] = folder

    def remove(self, name: str, version: int) -> None:
        """Have a version not loaded from now on."""
        self.folders.pop((name, version), None)

    def _there(self) -> Folders:
        found = dict(scan(self._repository)) if self._repository is not None else {}
        in_repository = {name for name, _ in found}
        for name, folder in self._models:
            if name in in_repository:
                raise BundleError(f"the model {name} is in the repository, and given with --model: give another name")
            found |= given(name, Path(folder))
        return found
