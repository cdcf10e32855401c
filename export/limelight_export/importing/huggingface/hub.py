"""Download of checkpoints from a hub: safetensors, JSON and tokenizers alone; never a pickle, never code.

`huggingface_hub` does it, into its own cache: HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean
everywhere.
"""

import errno
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path

from limelight_bundle.errors import LimelightError
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import PICKLED_ENDINGS, WEIGHTS

_NAME = re.compile(r"([a-z0-9][\w.-]*/[a-z0-9][\w.-]*)(?:@([\w./-]+))?", re.ASCII | re.IGNORECASE)
# Modules of sentence-transformers are in folders such as 1_Pooling; other folders hold the same model for others.
_DESCRIPTION = re.compile(r"(\d+_\w+/)?[\w.-]+\.(json|txt|model|spm|jinja)|README\.md", re.ASCII)
_OF_MODULES = re.compile(r"\d+_\w+/model\.safetensors", re.ASCII)
_PARTS = re.compile(r"\w+-\d+-of-\d+\.safetensors", re.ASCII)
_ANSWER_SECONDS = 30.0


def hub_name(checkpoint: str) -> tuple[str, str] | None:
    """Read `org/name` or `org/name@revision`; None for a folder, which there may be of that name."""
    found = _NAME.fullmatch(checkpoint)
    return (found[1], found[2] or "") if found and not Path(checkpoint).exists() else None


def download(
    name: str, revision: str, *, check: Callable[[Path], object], say: Callable[[str], None] = lambda line: None
) -> Path:
    """Download what an import reads of a repository.

    Args:
        revision: branch, tag or commit; empty for the default branch.
        check: is called with the folder when all but the weights is there; an error of it ends the download.
        say: is called with one line: what is downloaded from where, and its commit.
    Returns: the folder of that commit in the cache.
    Raises: CheckpointError: the repository cannot be had, or holds no safetensors: why, and what to do.
    """
    from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache

    hub, cache = constants.ENDPOINT, constants.HF_HUB_CACHE
    if constants.HF_HUB_OFFLINE:
        if before := _downloaded_before(name, revision):
            say(f"HF_HUB_OFFLINE is set: {name} at {before.name}, as it was downloaded before to {cache}")
            return before
        raise CheckpointError(f"HF_HUB_OFFLINE is set, and {name} was not downloaded to {cache} before; unset it once")
    with _plain_errors(name, revision):
        try:
            info = HfApi().model_info(name, revision=revision or None, files_metadata=True, timeout=_ANSWER_SECONDS)
        except Exception as error:
            before = None if _is_refusal(error) else _downloaded_before(name, revision)
            if before is None:
                raise
            say(f"{hub} does not answer: {name} at {before.name}, as it was downloaded before to {cache}")
            return before
        sizes = {each.rfilename: each.size or 0 for each in info.siblings or ()}
        described = [each for each in sizes if _DESCRIPTION.fullmatch(each)]
        weights = _weights(name, sizes)
        missing = [
            each
            for each in (*described, *weights)
            if not isinstance(try_to_load_from_cache(name, each, revision=info.sha), str)
        ]
        if missing:
            size = sum(sizes[each] for each in missing)
            say(f"downloading {name} at {info.sha} from {hub} to {cache}: {len(missing)} files, {size / 1e6:,.1f} MB")
            _check_room(name, Path(cache), size)
        else:
            say(f"{name} at {info.sha}, as {hub} has it, is in {cache}")
        with _progress_bars():
            # By the revision's name once, so that it is known offline too.
            folder = Path(snapshot_download(name, revision=revision or None, allow_patterns=described))
            check(folder)
            snapshot_download(name, revision=folder.name, allow_patterns=weights)
        return folder


@contextmanager
def _progress_bars() -> Iterator[None]:
    """Show the library's progress on a terminal, past the stream that would escape it, and nowhere else."""
    from huggingface_hub.utils import disable_progress_bars

    is_terminal = sys.stderr.isatty()
    if not is_terminal:
        disable_progress_bars()
    with redirect_stderr(sys.__stderr__) if is_terminal else nullcontext():
        yield


def _weights(name: str, files: Collection[str]) -> list[str]:
    """Choose the files of weights. Raises CheckpointError where there are none in safetensors."""
    parts = [WEIGHTS] if WEIGHTS in files else [each for each in files if _PARTS.fullmatch(each)]
    if parts:
        return parts + [each for each in files if _OF_MODULES.fullmatch(each)]
    if "adapter_config.json" in files:
        raise CheckpointError(f"{name} is an adapter without its model; merge the two and import the folder")
    if pickles := [each for each in files if each.endswith(PICKLED_ENDINGS)]:
        own = name.rpartition("/")[2]
        raise CheckpointError(
            f"{name} has its weights as pickles alone ({pickles[0]}), which can run code when they are read, and are "
            f"not downloaded; if you trust it: hf download {name} --local-dir {own}, and then: "
            f"limelight import convert-weights {own} --out NEW_FOLDER"
        )
    raise CheckpointError(f"{name} has no {WEIGHTS}")


def _downloaded_before(name: str, revision: str) -> Path | None:
    """Find the folder of a revision in the cache. Weights, which come last, are there only where all else is."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(
            name, revision=revision or None, local_files_only=True, allow_patterns=["config.json", WEIGHTS]
        )
        return Path(found)
    except LocalEntryNotFoundError:
        return None


def _check_room(name: str, cache: Path, size: int) -> None:
    there = next(each for each in (cache, *cache.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        raise CheckpointError(
            _no_room(name, cache) + f": it takes {size / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free"
        )


def _no_room(name: str, cache: str | Path) -> str:
    return f"there is no room for {name} in {cache}; make room, or set HF_HOME to another folder"


def _is_refusal(error: Exception) -> bool:
    """Tell whether a hub refuses, rather than being overloaded, broken or out of reach."""
    from huggingface_hub.errors import HfHubHTTPError

    return isinstance(error, HfHubHTTPError) and error.response.status_code < 500 and error.response.status_code != 429


@contextmanager
def _plain_errors(name: str, revision: str) -> Iterator[None]:
    """Raise errors of the library and of what it stands on as CheckpointError."""
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    try:
        yield
    except LimelightError:
        raise
    except errors.GatedRepoError as error:
        raise CheckpointError(
            f"{name} is gated: ask for access at {hub}/{name}, and set HF_TOKEN to a token of an account that has it"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise CheckpointError(f"{name} has no revision {revision}; name a branch, a tag or a commit") from error
    except errors.RepositoryNotFoundError as error:
        raise CheckpointError(
            f"{hub} has no repository {name}, or shows it to others alone; check the name, or set HF_TOKEN to a token "
            "that may read it"
        ) from error
    except errors.HFValidationError as error:
        raise CheckpointError(f"{name} names no repository: {error}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        what = "is HF_TOKEN a valid token?" if status in (401, 403) else "try again later"
        raise CheckpointError(f"{hub} answers {status} for {name}; {what}") from error
    except Exception as error:  # of three libraries for HTTP, and of the system
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise CheckpointError(_no_room(name, constants.HF_HUB_CACHE)) from error
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise CheckpointError(
            f"{name} cannot be downloaded from {hub}: {reason}; try again when it can be reached: what is there is kept"
        ) from error
