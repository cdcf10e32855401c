"""A model's check of itself at load."""

import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.checking.selftest import check_samples
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.observability.observer import NullObserver, Stage
from limelight_service.settings import Settings


class Stages(NullObserver):
    """Remembers the stages that it is told of."""

    def __init__(self) -> None:
        self.told: list[Stage] = []

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        self.told.append(stage)


@pytest.mark.parametrize("name", ["tiny", "echo"])
def test_the_check_at_load_is_in_no_figure_of_latency(
    name: str, folders: dict[str, BundleFolder], provider: Provider
) -> None:
    stages = Stages()
    model = open_model(folders[name], provider, Settings(), stages)
    check_samples(model, folders[name])
    assert stages.told == []
