"""Providers: what is asked for is what runs, or the start fails."""

import onnx
import pytest

from service.engine import providers
from service.engine.providers import CPU, CUDA, choose_provider
from service.errors import ProviderError


def test_the_probe_is_a_valid_graph() -> None:
    model = onnx.load_from_string(providers._PROBE)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Add"]


def test_the_cpu_has_a_lane_a_core_unless_told_otherwise() -> None:
    assert choose_provider("cpu", lanes=3).lanes == 3
    provider = choose_provider("cpu")
    assert provider.name == CPU
    assert provider.lanes == provider.concurrent >= 1


@pytest.mark.skipif(CUDA in providers.runtime().get_available_providers(), reason="this runtime has CUDA")
def test_cuda_that_is_not_there_is_an_error_and_auto_says_what_it_took(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ProviderError, match="CUDA was asked for"):
        choose_provider("cuda")
    with caplog.at_level("INFO"):
        assert choose_provider("auto").name == CPU
    assert "no CUDA" in caplog.text


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_wheel_with_cuda_and_no_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = providers.runtime()
    monkeypatch.setattr(runtime, "get_available_providers", lambda: [CUDA, CPU])
    with pytest.raises(ProviderError, match="CUDA was asked for"):
        choose_provider("cuda")


@pytest.mark.parametrize(
    ("installed", "message"),
    [(set(), "not installed"), ({"onnxruntime", "onnxruntime-gpu"}, "both installed")],
)
def test_both_runtimes_or_none_refuse_to_start(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], message: str
) -> None:
    monkeypatch.setattr(providers, "_installed", lambda name: name in installed)
    for wanted in ("auto", "cpu", "cuda"):
        with pytest.raises(ProviderError, match=message):
            choose_provider(wanted)
