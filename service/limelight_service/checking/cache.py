"""Keeps what checks have found: a bundle that passed is not checked again, nor are its weights packed again.

REPOSITORY's files are hashed at every start. A verdict goes by those hashes and by all else that it depends on, in a
folder that belongs to this user alone; whatever does not fit exactly is checked again.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from limelight_bundle.errors import BundleError
from limelight_bundle.files import check_hashes, check_sizes, read_stamped
from limelight_bundle.names import BUNDLE_FILE
from limelight_bundle.reader import MAX_DESCRIPTION_BYTES, origin_of, parse, placed
from limelight_service.checking.checker import Checker, Checks
from limelight_service.checking.identity import identity
from limelight_service.checking.verdict import Passed, Verdict, from_json, to_json
from limelight_service.engine.runtime.providers import Provider
from limelight_service.platform.private import private_folder
from limelight_service.settings import CHECKPOINTS, Settings

logger = logging.getLogger(__name__)

_VERDICT, _HASHES, _WRITING = "verdict.json", "hashes.json", ".writing-"
_LARGEST_VERDICT = 64 * 2**20
_ABANDONED = 86400.0  # seconds after which what was being written is nobody's


class Cached:
    """Looks a bundle up before it has it checked, and keeps what the check finds.

    folder: made, with the folders above it, where it is not there. size: bytes that all of it may have.
    Raises: OSError where the folder cannot be had for this user alone.
    """

    def __init__(self, checks: Checks, folder: Path, size: int) -> None:
        self._checks = checks
        self._folder = private_folder(folder)
        self._size = size

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Give what is known of a bundle as it is, or check it. Raises: ModelUnavailableError."""
        if provider.is_cuda:  # whose driver and device nobody can tell from here
            return self._checks.check(folder, provider, settings)
        digest = _digest(folder)
        kept = self._folder / _key(digest, provider)
        if digest and (found := _find(kept, folder, settings)):
            logger.debug("%s was checked before", folder)
            return found
        with self._writing() as writing:
            verdict = self._checks.check(folder, provider, settings, writing)
            if not isinstance(verdict, Passed) or writing is None or verdict.digest != digest:
                return verdict
            try:
                return self._keep(verdict, writing, kept, folder, settings)
            except OSError as error:
                logger.warning("what the check of a bundle found cannot be kept: %s", error.strerror)
                return replace(verdict, saved="")

    def close(self) -> None:
        """End what is being checked."""
        self._checks.close()

    def _keep(self, verdict: Passed, writing: Path, kept: Path, folder: Path, settings: Settings) -> Passed:
        hashes = {str(path.relative_to(writing)): _hash(path) for path in _files(writing)}
        verdict = replace(verdict, saved=str(kept) if hashes else "")
        _write(writing / _VERDICT, to_json(verdict))
        _write(writing / _HASHES, json.dumps(hashes).encode())
        try:
            writing.rename(kept)
        except OSError:  # something is there: of a server that started at the same time, or of no use
            if known := _find(kept, folder, settings):
                return known
            shutil.rmtree(kept, ignore_errors=True)
            writing.rename(kept)
        self._prune(kept)
        return verdict

    @contextmanager
    def _writing(self) -> Iterator[Path | None]:
        """Give a folder to write to; None where there can be none. What is left of it is removed."""
        try:
            made = Path(tempfile.mkdtemp(prefix=_WRITING, dir=self._folder))
        except OSError as error:
            logger.warning("what the check of a bundle finds cannot be kept: %s", error.strerror)
            yield None
            return
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _prune(self, newest: Path) -> None:
        """Remove what was used longest ago until the rest is small enough, and what nobody will finish."""
        entries = []
        for entry in (each for each in self._folder.iterdir() if each.name != CHECKPOINTS):
            with suppress(OSError):
                used = entry.stat().st_mtime
                if not entry.name.startswith(_WRITING):
                    entries.append((entry != newest, used, entry, sum(each.stat().st_size for each in _files(entry))))
                elif time.time() - used > _ABANDONED:
                    shutil.rmtree(entry, ignore_errors=True)
        total = sum(size for *_, size in entries)
        for older, _, entry, size in sorted(entries, key=lambda each: each[1]):
            if total > self._size and older:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size


def checks_for(settings: Settings) -> Checks:
    """Make what checks bundles for a server, with a memory where it may have one."""
    checks = Checker()
    try:
        folder = settings.cache_folder
        return checks if folder is None else Cached(checks, folder, settings.max_cache_bytes)
    except (OSError, RuntimeError) as error:  # there may be no home
        logger.info("what checks of bundles find is not kept: %s", getattr(error, "strerror", None) or error)
        return checks


def _key(digest: str, provider: Provider) -> str:
    return hashlib.sha256(json.dumps([digest, identity(), asdict(provider)]).encode()).hexdigest()


def _digest(folder: Path) -> str:
    """Hash a bundle's description; empty where it cannot be read, which its check will say."""
    try:
        return hashlib.sha256(read_stamped(folder, BUNDLE_FILE, MAX_DESCRIPTION_BYTES)[0]).hexdigest()
    except (BundleError, OSError):
        return ""


def _write(path: Path, data: bytes) -> None:
    """Write something with its own hash in front, by which `_read` knows it again."""
    path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def _read(path: Path) -> bytes:
    """Read what `_write` wrote. Raises: ValueError where a bit of it is another."""
    if path.stat().st_size > _LARGEST_VERDICT:
        raise ValueError("it is larger than any verdict")
    said, _, data = path.read_bytes().partition(b"\n")
    if said != hashlib.sha256(data).hexdigest().encode():
        raise ValueError(f"{path.name} is not what was written")
    return data


def _find(kept: Path, folder: Path, settings: Settings) -> Passed | None:
    """Give a verdict where there is one, and every file is the one that it was given for.

    Of the verdict only what it found is taken: what the bundle is, is read from the file that was hashed.
    """
    try:
        verdict = from_json(_read(kept / _VERDICT))
        if not isinstance(verdict, Passed):
            return None
        data, stamp = read_stamped(folder, BUNDLE_FILE, MAX_DESCRIPTION_BYTES)
        if hashlib.sha256(data).hexdigest() != verdict.digest or not _is_plain(folder):
            return None
        bundle = parse(data)
        files = bundle.files
        if any(os.stat(folder / each.path).st_size != verdict.stamps[each.path][2] for each in files):
            return None
        check_sizes(folder, files, settings.check_bytes)
        stamps = {BUNDLE_FILE: stamp, **check_hashes(folder, files)}
        hashes = json.loads(_read(kept / _HASHES))
        if {str(path.relative_to(kept)): _hash(path) for path in _files(kept) if path.parent != kept} != hashes:
            logger.warning("weights that were kept are not what they were; the bundle is checked again")
            return None
        os.utime(kept)
    except FileNotFoundError:
        return None
    except Exception as error:
        logger.warning("what was kept of a check is of no use, and the bundle is checked again: %s", error)
        logger.debug("of what was kept", exc_info=error)
        return None
    own = placed(bundle, folder, anywhere=True).SerializeToString()
    return replace(verdict, bundle=own, stamps=stamps, saved=str(kept) if hashes else "", origin=origin_of(bundle))


def _is_plain(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not folder.parent.is_symlink()


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _hash(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
