"""Which versions there are and what of them can answer; uses that end before something is freed."""

import asyncio

import pytest

from limelight_service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from limelight_service.repository.catalogue import Catalogue, State, VersionStatus
from limelight_service.repository.usage import Releases, Usage


def catalogue_of(*statuses: VersionStatus[str]) -> Catalogue[str]:
    made: Catalogue[str] = Catalogue()
    for each in statuses:
        made.keep(each)
    return made


FIRST = VersionStatus("tiny", 1, State.READY, model="first")
SECOND = VersionStatus("tiny", 2, State.READY, model="second")
LOADING = VersionStatus[str]("tiny", 3, State.LOADING)
REFUSED = VersionStatus[str]("tiny", 4, State.FAILED, "it is broken")


def test_the_default_is_the_highest_version_that_can_answer() -> None:
    catalogue = catalogue_of(REFUSED, SECOND, FIRST, LOADING)
    assert [each.version for each in catalogue.statuses()] == [1, 2, 3, 4]
    assert [each.version for each in catalogue.statuses() if each.is_default] == [2]
    assert catalogue.resolve("tiny").model == "second" and catalogue.resolve("tiny", 1).model == "first"
    catalogue.drop("tiny", 2)
    assert catalogue.resolve("tiny").model == "first"
    catalogue.drop("tiny", 1)
    assert catalogue.status("tiny").version == 4  # the highest, where none can answer


def test_a_version_that_cannot_answer_says_why() -> None:
    catalogue = catalogue_of(FIRST, LOADING, REFUSED)
    with pytest.raises(ModelUnavailableError, match="still being loaded"):
        catalogue.resolve("tiny", 3)
    with pytest.raises(ModelRefusedError, match="version 4 was refused: it is broken"):
        catalogue.resolve("tiny", 4)
    with pytest.raises(ModelNotFoundError, match="no version 9; there are: 1, 3, 4"):
        catalogue.resolve("tiny", 9)


def test_a_model_that_a_caller_may_not_know_of_is_like_none() -> None:
    catalogue = catalogue_of(FIRST, VersionStatus("other", 1, State.READY, model="other"))
    with pytest.raises(ModelNotFoundError, match=r"no model 'tiny'; there are: other$"):
        catalogue.resolve("tiny", sees=lambda name: name == "other")
    with pytest.raises(ModelNotFoundError, match=r"no model 'tny'; there are: other$"):
        catalogue.resolve("tny", sees=lambda name: name == "other")


def test_a_misspelt_model_is_answered_with_the_closest_name() -> None:
    with pytest.raises(ModelNotFoundError, match=r"no model 'tinny'; there are: tiny; did you mean 'tiny'\?$"):
        catalogue_of(FIRST).resolve("tinny")


def test_a_name_as_long_as_a_request_is_cut_in_what_is_said_of_it() -> None:
    with pytest.raises(ModelNotFoundError, match=r"there are: none$") as refused:
        catalogue_of().resolve("x" * 10**6)
    assert len(refused.value.message) < 200 and not catalogue_of().is_ready


def test_listeners_hear_of_every_change() -> None:
    catalogue, heard = catalogue_of(), list[bool]()
    catalogue.on_change(lambda: heard.append(catalogue.is_ready))
    for change in (lambda: catalogue.keep(LOADING), lambda: catalogue.keep(FIRST), lambda: catalogue.drop("tiny", 1)):
        before = catalogue.changes
        change()
        assert catalogue.changes > before
    assert heard == [False, True, False]


def test_why_no_model_can_answer_is_known_where_it_will_not_pass() -> None:
    assert "there is nothing to serve" in catalogue_of().why_not_ready()
    assert catalogue_of(LOADING, REFUSED).why_not_ready() == ""
    assert catalogue_of(FIRST, REFUSED).why_not_ready() == ""
    assert catalogue_of(REFUSED).why_not_ready() == "no model can answer: tiny version 4 was refused: it is broken"


def test_uses_of_a_thing_end_before_it_is_unused() -> None:
    async def run() -> None:
        usage: Usage[str] = Usage()
        await usage.unused("thing")
        usage.enter("thing")
        usage.enter("thing")
        waiting = asyncio.ensure_future(usage.unused("thing"))
        usage.leave("thing")
        await asyncio.sleep(0.01)
        assert not waiting.done()
        usage.leave("thing")
        await waiting

    asyncio.run(run())


def test_a_release_is_awaited_where_one_is_expected() -> None:
    async def run() -> None:
        releases: Releases[str] = Releases()
        await releases.released("nobody was told")
        for release in (lambda: releases.release("thing"), releases.release_all):
            releases.expect("thing")
            releases.release("other")
            waiting = asyncio.ensure_future(releases.released("thing"))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            release()
            await waiting

    asyncio.run(run())
