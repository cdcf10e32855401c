"""Writing of a bundle, completely or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from google.protobuf import json_format

from limelight_bundle.checks.features import used_features
from limelight_bundle.errors import BundleError
from limelight_bundle.names import BUNDLE_FILE, SCHEMA_VERSION, check_file_name, is_model_name, is_version
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.v1 import bundle_pb2


def next_version(repository: Path, model: str) -> int:
    """Return the version after the highest in the repository; 1 if there is none."""
    folder = repository / model
    versions = [int(path.name) for path in folder.iterdir() if is_version(path.name)] if folder.is_dir() else []
    return max(versions, default=0) + 1


def target_folder(repository: Path, model: str, version: int = 0) -> Path:
    """Return the folder of a new bundle.

    Args:
        version: 0 for the next version.
    Raises:
        BundleError: the name is invalid, or the version exists.
    """
    if not is_model_name(model):
        raise BundleError(f"{model!r} is not a model name: use lower-case letters, digits, _ and -, at most 64")
    version = version or next_version(repository, model)
    if not is_version(str(version)):
        raise BundleError(f"{version} is not a version: use a positive integer")
    target = repository / model / str(version)
    if target.exists() or target.is_symlink():
        raise BundleError(f"{model}/{version} exists already; versions are never overwritten")
    return target


def write_bundle(
    repository: Path, bundle: bundle_pb2.Bundle, files: Mapping[str, bytes | Path], *, version: int = 0
) -> BundleFolder:
    """Write REPOSITORY/<model>/<version>: into a temporary folder, checked as a reader does, then renamed.

    Args:
        bundle: without version, files, required features and schema version, which are set here.
        files: content, or a file to copy, by name.
        version: 0 for the next version.
    Raises:
        BundleError: a name is invalid, the version exists, or the reader refuses the result.
    """
    model = bundle.description.name
    target = target_folder(repository, model, version)
    version = int(target.name)
    complete = bundle_pb2.Bundle()
    complete.CopyFrom(bundle)
    complete.schema_version = SCHEMA_VERSION
    complete.required_features[:] = used_features(complete)
    complete.description.version = version
    try:
        repository.mkdir(parents=True, exist_ok=True)
        # The reader needs a folder <model>/<version>; servers ignore folders with a dot.
        scratch = Path(tempfile.mkdtemp(prefix=".writing-", dir=repository))
    except OSError as error:
        raise _unwritten(model, version, error) from error
    try:
        folder = scratch / model / str(version)
        folder.mkdir(parents=True)
        del complete.files[:]
        for name, content in sorted(files.items()):
            check_file_name(name)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                shutil.copyfile(content, folder / name)
            with (folder / name).open("rb") as file:
                complete.files.add(path=name, sha256=hashlib.file_digest(file, "sha256").hexdigest())
        text = json_format.MessageToJson(complete, preserving_proto_field_name=True, ensure_ascii=False, indent=1)
        (folder / BUNDLE_FILE).write_text(text + "\n", encoding="utf-8")
        written = read_bundle(folder)
        target.parent.mkdir(exist_ok=True)
        try:
            os.rename(folder, target)
        except OSError as error:
            if target.exists():  # another process wrote this version
                raise BundleError(f"{model}/{version} exists already; versions are never overwritten") from error
            raise
    except FileNotFoundError:  # raised for a file to copy
        raise
    except OSError as error:
        raise _unwritten(model, version, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return replace(written, path=target)


def _unwritten(model: str, version: int, error: OSError) -> BundleError:
    """Return the error for a bundle that could not be written."""
    return BundleError(
        f"{model}/{version} cannot be written ({error.strerror or error}); nothing was left behind: make room, "
        "or choose another repository"
    )
