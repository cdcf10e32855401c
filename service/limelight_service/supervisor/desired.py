"""The desired state: which versions of which models are to be loaded. A restarted engine gets this, and no new scan."""

import asyncio
from pathlib import Path

from limelight_service.repository.catalogue import no_version_in_repository
from limelight_service.repository.folders import Folders, scan
from limelight_service.repository.skipped import log_skipped


class DesiredState:
    """Folders by name and version. For one event loop."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self.folders: dict[tuple[str, int], Path] = {}

    async def find(self) -> Folders:
        """Scan the repository at the start: every version that it has is to be loaded.

        Raises: LimelightError where it cannot be read.
        """
        self.folders = dict(await asyncio.to_thread(scan, self._repository))
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
        """Find every folder that the repository has. Raises: LimelightError where it cannot be read."""
        return await asyncio.to_thread(scan, self._repository)

    def add(self, name: str, version: int, folder: Path) -> None:
        """Have a version loaded from now on."""
        self.folders[name, version] = folder

    def remove(self, name: str, version: int) -> None:
        """Have a version not loaded from now on."""
        self.folders.pop((name, version), None)
