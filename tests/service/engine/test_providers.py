"""Providers: what is asked for is what runs, or the start fails."""

import pytest

from limelight_service.engine.runtime import providers
from limelight_service.engine.runtime.providers import CPU, CUDA, Cuda, choose_provider, cuda_of, on_cuda
from limelight_service.errors import ProviderError
from limelight_service.settings import Settings


def test_the_cpu_has_a_worker_a_core_unless_told_otherwise() -> None:
    assert choose_provider("cpu", workers=3).workers == 3
    provider = choose_provider("cpu")
    assert provider.name == CPU
    assert provider.workers == provider.concurrent >= 1


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


def test_what_is_chosen_of_a_gpu_is_what_the_provider_is_given() -> None:
    plain = on_cuda(Cuda())
    assert plain.requested() == [(CUDA, plain.options), CPU]
    assert (plain.options["device_id"], plain.options["use_tf32"]) == ("0", "0")
    assert "gpu_mem_limit" not in plain.options
    chosen = on_cuda(cuda_of(Settings(gpu_devices="1", gpu_memory_bytes=2**30, gpu_tf32=True)))
    assert chosen.options["gpu_mem_limit"] == str(2**30)
    assert (chosen.options["device_id"], chosen.options["use_tf32"]) == ("1", "1")
    assert (chosen.device, chosen.arena) == (("cuda", 1), "gpu:1")


def test_on_a_gpu_one_batch_is_put_together_while_another_computes() -> None:
    assert (on_cuda(Cuda()).workers, on_cuda(Cuda()).concurrent, on_cuda(Cuda()).staged) == (2, 2, True)
    assert (on_cuda(Cuda(), workers=1).workers, on_cuda(Cuda(), workers=1).concurrent) == (1, 1)
    assert on_cuda(Cuda(), workers=4).concurrent == 2
