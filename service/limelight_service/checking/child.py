"""The process that checks bundles, one after the other: each is read, loaded and answers its samples, under limits."""

import gc
import os
import traceback
from multiprocessing.connection import Connection

from limelight_bundle.errors import LimelightError
from limelight_bundle.reader import read_bundle
from limelight_service.checking.limits import lift, limit_next, settle_process
from limelight_service.checking.selftest import check_ranges, check_samples
from limelight_service.checking.verdict import Passed, Refused, Request, Verdict, to_json
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.arena import share_arena
from limelight_service.engine.runtime.providers import runtime
from limelight_service.errors import MemoryShortError
from limelight_service.observability.observer import NullObserver
from limelight_service.platform.memory import give_back
from limelight_service.platform.threads import background
from limelight_service.process_signals import leave_signals_to_parent

BEGUN = b"begun"
_LONGEST_DETAIL = 4000


def main(descriptor: int, idle: float) -> None:
    """Check what is asked for until the other end is gone, or nothing was asked for so many seconds.

    descriptor: of the connection. Standard input is a pipe that ends with the process that asks.
    """
    leave_signals_to_parent()
    background(_end_with_parent, "parent").start()
    settle_process()
    connection = Connection(descriptor)
    runtime()
    gc.collect()
    gc.freeze()  # what was imported is not looked through again after every bundle
    try:
        while connection.poll(idle):
            request = Request.from_json(connection.recv_bytes())
            connection.send_bytes(BEGUN)
            share_arena(runtime(), request.settings.run_bytes)
            verdict = _check(request)
            lift()
            connection.send_bytes(to_json(verdict))
            del verdict
            gc.collect()
            give_back()
    except (EOFError, OSError):
        return


def _check(request: Request) -> Verdict:
    """Check one bundle. Whatever a library throws is that bundle's failure: panics are no `Exception`."""
    settings = request.settings
    try:
        limit_next(settings)
        folder = read_bundle(request.folder, settings.check_bytes, anywhere=True)
        model = open_model(folder, request.provider, settings, NullObserver(), saved=request.saves)
        check_samples(model, folder)
        check_ranges(model, folder)
        return Passed.of(folder)
    except (MemoryError, MemoryShortError) as error:
        return Refused(
            f"its check takes more than the {settings.check_bytes} bytes of memory that it may", _detail(error)
        )
    except LimelightError as error:
        return Refused(error.message, _detail(_foreign(error)))
    except BaseException as error:
        return Refused("it could not be loaded; the server's log says why", _detail(error))


def _foreign(error: BaseException | None) -> BaseException | None:
    """Give the library's error behind one of ours, which says less than a reason must; None where there is none."""
    while isinstance(error, LimelightError):
        error = error.__cause__
    return error


def _detail(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error))[-_LONGEST_DETAIL:] if error else ""


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
