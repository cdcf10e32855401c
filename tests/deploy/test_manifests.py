"""deploy/kubernetes and deploy/kserve: valid for Kubernetes, patches that apply, and settings that the server has."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from limelight_service.configuration import PREFIX, SettingsError, load_settings
from limelight_service.observability.metrics import Metrics
from limelight_service.settings import Settings, public_settings
from tests.deploy.kustomize import Manifest, build, documents

kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT = Path(__file__).parents[2]
KUBERNETES, KSERVE = ROOT / "deploy" / "kubernetes", ROOT / "deploy" / "kserve"
OVERLAYS = ("cpu", "cuda", "locked")
VERSION = "1.34"
OWN_KINDS = {"ScaledObject", "ServiceMonitor"}  # of KEDA and the Prometheus Operator
CLIENT = {f"{PREFIX}CA", f"{PREFIX}SERVER_NAME"}  # variables of `limelight health`


@pytest.fixture(scope="module", params=OVERLAYS)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return build(KUBERNETES / "overlays" / request.param)


def one(manifests: list[Manifest], kind: str, name: str = "limelight") -> Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def image_settings() -> tuple[list[str], dict[str, str]]:
    """Arguments and variables of the image."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    (entry,) = re.findall(r'^ENTRYPOINT \["limelight", "serve", (.*)\]$', text, re.M)
    variables = re.findall(r"(LIMELIGHT_\w+)=(\S+)", "\n".join(re.findall(r"^ENV (.*)$", text, re.M)))
    return [each.strip(' "') for each in entry.split(",")], dict(variables)


def settings_of(container: dict[str, Any]) -> Settings:
    """The settings in effect in a container; SettingsError, or AssertionError, where one does not exist."""
    arguments, environment = image_settings()
    arguments = [*arguments, *container.get("args", ())]
    assert len(arguments) % 2 == 0, shlex.join(arguments)
    flags = dict(zip((each.removeprefix("--") for each in arguments[::2]), arguments[1::2], strict=True))
    environment |= {each["name"]: each["value"] for each in container.get("env", ())}
    names = {each.name for each in public_settings()}
    for name in environment:
        assert name in CLIENT or name.removeprefix(PREFIX).lower() in names, name
    assert {each.replace("-", "_") for each in flags} <= names
    as_variables = {PREFIX + name.replace("-", "_").upper(): value for name, value in flags.items()}
    return load_settings({}, environment=environment | as_variables)


def test_every_manifest_is_valid(manifests: list[Manifest]) -> None:
    for each in manifests:
        if each["kind"] not in OWN_KINDS:
            kubernetes_validate.validate(each, VERSION, strict=True)


def test_what_is_not_valid_is_noticed(manifests: list[Manifest]) -> None:
    wrong = one(manifests, "Deployment") | {"spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_the_server_has_every_setting_and_accepts_them_together(manifests: list[Manifest]) -> None:
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    settings = settings_of(container)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (settings.port, settings.metrics_port) == (ports["grpc"], ports["metrics"])
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts[settings.repository]["readOnly"] and settings.cache_dir in mounts
    for file in (settings.tls_cert, settings.tls_key, settings.tokens):
        assert not file or str(Path(file).parent) in mounts
    for wrong in (["--no-such-setting", "1"], ["--frontends", "-1"]):
        with pytest.raises((AssertionError, SettingsError)):
            settings_of(container | {"args": container["args"] + wrong})


def test_a_pod_has_time_to_drain_and_to_finish(manifests: list[Manifest]) -> None:
    pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = settings_of(container)
    assert pod["terminationGracePeriodSeconds"] >= settings.drain_seconds + settings.grace_seconds + 5
    ready = container["readinessProbe"]
    # The gRPC probes of Kubernetes speak no TLS. They must notice the drain before it ends.
    assert ("exec" in ready) == bool(settings.tls_cert) != ("grpc" in ready)
    if "grpc" in ready:
        assert ready["grpc"]["port"] == settings.port
        assert ready["periodSeconds"] * ready["failureThreshold"] <= settings.drain_seconds
    else:
        assert ready["exec"]["command"] == ["limelight", "health"]


def test_a_pod_is_locked_down(manifests: list[Manifest]) -> None:
    pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]} and pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert one(manifests, "NetworkPolicy")["spec"]["egress"] == []


def test_everything_selects_the_pods_and_refers_to_what_exists(manifests: list[Manifest]) -> None:
    deployment = one(manifests, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    budget, network = one(manifests, "PodDisruptionBudget")["spec"], one(manifests, "NetworkPolicy")["spec"]
    selectors = [deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"]]
    selectors += [network["podSelector"]["matchLabels"]]
    selectors += [each["spec"]["selector"] for each in manifests if each["kind"] == "Service"]
    assert all(each.items() <= labels.items() for each in selectors)
    pod = deployment["template"]["spec"]
    volumes = {each["name"] for each in pod["volumes"]}
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    ports = {each["name"] for each in container["ports"]}
    for service in (each for each in manifests if each["kind"] == "Service"):
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    assert {port["port"] for rule in network["ingress"] for port in rule["ports"]} == ports


def test_prometheus_finds_the_metrics(manifests: list[Manifest]) -> None:
    """By the documentation of ServiceMonitor: `selector` is of Services, `port` the name of their port."""
    monitor = one(manifests, "ServiceMonitor")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    service = one(manifests, "Service", "limelight-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert set(endpoint) == {"port", "path", "interval"}
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}


@pytest.mark.parametrize("overlay", ["cpu", "cuda"])
def test_keda_scales_the_deployment_on_metrics_that_the_server_has(overlay: str) -> None:
    """By KEDA's documentation of ScaledObject and of its Prometheus scaler, whose metadata are strings."""
    manifests = build(KUBERNETES / "overlays" / overlay)
    scaled = one(manifests, "ScaledObject")
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    spec = scaled["spec"]
    assert set(spec) <= {
        "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod", "fallback",
        "advanced", "triggers",
    }  # fmt: skip
    assert spec["scaleTargetRef"] == {"name": one(manifests, "Deployment")["metadata"]["name"]}
    assert "replicas" not in one(manifests, "Deployment")["spec"]
    assert 1 <= spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    page = set(Metrics().snapshot())
    queries = []
    for trigger in spec["triggers"]:
        assert trigger["type"] == "prometheus" and trigger["metricType"] in ("AverageValue", "Value")
        metadata = trigger["metadata"]
        assert {"serverAddress", "query", "threshold"} <= set(metadata)
        assert all(isinstance(each, str) for each in metadata.values()) and float(metadata["threshold"]) > 0
        queries.append(metadata["query"])
        for name in re.findall(r"\b(?:limelight|grpc)_\w+(?=[\[{)])", metadata["query"]):
            assert name.removesuffix("_bucket") in page, name
    assert "limelight_queue_depth" in queries[0] and "histogram_quantile(0.95" in queries[1]


def test_prometheus_can_read_the_queries(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    triggers = one(build(KUBERNETES / "overlays" / "cpu"), "ScaledObject")["spec"]["triggers"]
    rules = [{"record": f"query:{place}", "expr": each["metadata"]["query"]} for place, each in enumerate(triggers)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and "2 rules found" in result.stdout, result.stderr


def test_kserve_finds_the_runtime_for_the_service() -> None:
    """By KServe's documentation of both resources: format, protocol and container have the names that it expects."""
    (runtime,), (service,) = documents(KSERVE / "runtime.yaml"), documents(KSERVE / "inferenceservice.yaml")
    assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ClusterServingRuntime")
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    model = service["spec"]["predictor"]["model"]
    (format_,) = runtime["spec"]["supportedModelFormats"]
    assert model["modelFormat"] == {name: format_[name] for name in ("name", "version")} and format_["autoSelect"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container"
    settings = settings_of(container)
    (port,) = container["ports"]
    assert (settings.port, settings.repository) == (port["containerPort"], "/mnt/models")
    assert container["readinessProbe"]["grpc"]["port"] == settings.port
    assert runtime["spec"]["annotations"]["prometheus.kserve.io/port"] == str(settings.metrics_port)
    grace = service["spec"]["predictor"]["terminationGracePeriodSeconds"]
    assert grace >= settings.drain_seconds + settings.grace_seconds + 5
    # The fields of a container and of a pod are those of Kubernetes.
    predictor = {name: value for name, value in service["spec"]["predictor"].items() if name.endswith("Seconds")}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"containers": [container]} | predictor,
    }
    kubernetes_validate.validate(pod, VERSION, strict=True)
