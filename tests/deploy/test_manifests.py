"""deploy/kubernetes and deploy/kserve: valid by every schema, patches that apply, and settings that the server has."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from limelight_service.codecs.oip.service import SERVICE as INFERENCE_SERVICE
from limelight_service.codecs.v1.service import SERVICE as V1_SERVICE
from limelight_service.configuration import PREFIX, SettingsError, load_settings
from limelight_service.frontend.transport.health_and_reflection import HEALTH_SERVICE
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.saturation import SATURATION
from limelight_service.settings import Settings, public_settings
from tests.deploy.expressions import PROMETHEUS, everything
from tests.deploy.kustomize import Manifest, build, documents

kubernetes_validate = pytest.importorskip("kubernetes_validate")
jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
KUBERNETES, KSERVE = ROOT / "deploy" / "kubernetes", ROOT / "deploy" / "kserve"
GATEWAY = ROOT / "deploy" / "gateway"
OVERLAYS = ("cpu", "cuda", "gateway", "locked", "openshift")
VERSION = "1.34"
# Of KEDA, the Prometheus Operator and the Gateway API; each says from which package of a registry it comes.
SCHEMAS = {file.stem: json.loads(file.read_text()) for file in (Path(__file__).parent / "schemas").glob("*.json")}
JOB = "limelight"
# Variables of `limelight health`, and of OpenTelemetry.
OTHERS = {f"{PREFIX}CA", f"{PREFIX}SERVER_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT"}


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
        assert name in OTHERS or name.removeprefix(PREFIX).lower() in names, name
    assert {each.replace("-", "_") for each in flags} <= names
    as_variables = {PREFIX + name.replace("-", "_").upper(): value for name, value in flags.items()}
    return load_settings({}, environment=environment | as_variables)


def check(manifest: Manifest) -> None:
    """Check a manifest by the schema of its kind."""
    if (schema := SCHEMAS.get(manifest["kind"])) is None:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    else:
        jsonschema.validate(manifest, schema)


def test_every_manifest_is_valid(manifests: list[Manifest]) -> None:
    assert len({(each["kind"], each["metadata"]["name"]) for each in manifests}) == len(manifests)
    for each in manifests:
        check(each)
        with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
            check(each | {"spek": {}})


def test_every_file_is_in_some_overlay() -> None:
    built = [each for overlay in OVERLAYS for each in build(KUBERNETES / "overlays" / overlay)]
    names = {(each["kind"], each["metadata"]["name"]) for each in built}
    files = [each for each in KUBERNETES.rglob("*.yaml") if each.name != "kustomization.yaml"]
    found = {(each["kind"], each["metadata"]["name"]) for file in files for each in documents(file)}
    assert found == names
    assert set(OVERLAYS) == {each.name for each in (KUBERNETES / "overlays").iterdir()}


def test_the_server_has_every_setting_and_accepts_them_together(manifests: list[Manifest]) -> None:
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    settings = settings_of(container)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (settings.port, settings.metrics_port) == (ports["grpc"], ports["metrics"])
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts[settings.repository]["readOnly"] and str(Path(settings.cache_dir).parent) in mounts
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
    for each in manifests:  # policies add up: no other opens what is not the collector's port, or a look-up's
        if each["kind"] == "NetworkPolicy":
            ports = [port["port"] for rule in each["spec"].get("egress", ()) for port in rule["ports"]]
            assert not ports or (each["metadata"]["name"], ports) == ("limelight-tracing", [53, 53, 4318])


def test_everything_selects_the_pods_and_refers_to_what_exists(manifests: list[Manifest]) -> None:
    deployment = one(manifests, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    budget = one(manifests, "PodDisruptionBudget")["spec"]
    networks = [each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"]
    selectors = [deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"]]
    selectors += [each["podSelector"]["matchLabels"] for each in networks]
    selectors += [each["spec"]["selector"] for each in manifests if each["kind"] == "Service"]
    assert all(each.items() <= labels.items() for each in selectors)
    pod = deployment["template"]["spec"]
    volumes = {each["name"] for each in pod["volumes"]}
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    ports = {each["name"] for each in container["ports"]}
    for service in (each for each in manifests if each["kind"] == "Service"):
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    rules = [rule for each in networks for rule in each.get("ingress", ())]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports


def test_clients_look_again_within_half_a_minute(manifests: list[Manifest]) -> None:
    """gRPC looks a name up when a connection ends, but not twice in 30 s; ages vary by a tenth."""
    (container,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert 0 < 1.1 * settings_of(container).max_connection_age_seconds < 30


def test_openshift_chooses_the_user() -> None:
    pod = one(build(KUBERNETES / "overlays" / "openshift"), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_a_gpu_that_is_not_there_stops_no_update() -> None:
    deployment = one(build(KUBERNETES / "overlays" / "cuda"), "Deployment")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    (container,) = deployment["template"]["spec"]["containers"]
    for kind in ("requests", "limits"):
        assert container["resources"][kind] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}


def test_the_gateway_leads_to_both_protocols() -> None:
    manifests = build(KUBERNETES / "overlays" / "gateway")
    listeners = {each["name"]: each for each in one(manifests, "Gateway")["spec"]["listeners"]}
    assert len({each["hostname"] for each in listeners.values()}) == len(listeners)
    ports = {each["name"]: each for each in one(manifests, "Service", "limelight-http")["spec"]["ports"]}
    for kind, listener, port in (("GRPCRoute", "grpc", "grpc"), ("HTTPRoute", "json", "http")):
        route = one(manifests, kind)["spec"]
        assert route["parentRefs"] == [{"name": "limelight", "sectionName": listener}] and listener in listeners
        ((backend,),) = (rule["backendRefs"] for rule in route["rules"])
        assert backend == {"name": "limelight-http", "port": ports[port]["port"]}
    services = {match["method"]["service"] for match in one(manifests, "GRPCRoute")["spec"]["rules"][0]["matches"]}
    assert services == {V1_SERVICE, INFERENCE_SERVICE, HEALTH_SERVICE}
    prefixes = [match["path"]["value"] for match in one(manifests, "HTTPRoute")["spec"]["rules"][0]["matches"]]
    assert all(path.startswith(tuple(prefixes)) for path in ("/v1/models", "/v2/models/dates/infer"))


def test_the_inference_gateway_finds_the_pods_and_its_picker_their_metrics() -> None:
    """By the schemas of the pool and of the route, and by the names of llm-d-router's plugins (docs of August 2026)."""
    (pool,), (route,), (network,) = (
        documents(GATEWAY / f"{name}.yaml") for name in ("inferencepool", "httproute", "network")
    )
    for each in (pool, route, network):
        check(each)
        with pytest.raises((kubernetes_validate.ValidationError, jsonschema.ValidationError)):
            check(each | {"spek": {}})
    pod = one(build(KUBERNETES / "overlays" / "gateway"), "Deployment")["spec"]["template"]
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    (values,) = documents(GATEWAY / "values.yaml")
    picker, servers, spec = values["router"]["epp"], values["router"]["modelServers"], pool["spec"]
    assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"] == servers["matchLabels"] == network["spec"]["podSelector"]["matchLabels"]
    assert spec["targetPorts"] == servers["targetPorts"] == [{"number": ports["http"]}]
    assert spec["endpointPickerRef"]["failureMode"] == values["router"]["inferencePool"]["failureMode"]
    # The chart calls its release's pool as the release, and the picker after it.
    assert spec["endpointPickerRef"]["name"] == f"{pool['metadata']['name']}-epp"
    ((backend,),) = (rule["backendRefs"] for rule in route["spec"]["rules"])
    group = pool["apiVersion"].partition("/")[0]
    assert backend == {"group": group, "kind": "InferencePool", "name": pool["metadata"]["name"]}
    assert {port["port"] for rule in network["spec"]["ingress"] for port in rule["ports"]} == {"http", "metrics"}
    config = yaml.safe_load(picker["pluginsCustomConfig"][picker["pluginsConfigFile"]])
    plugins = {each["type"]: each.get("parameters", {}) for each in config["plugins"]}
    assert set(plugins) == {
        *("metrics-data-source", "core-metrics-extractor", "passthrough-parser"),
        *("queue-scorer", "running-requests-size-scorer", "max-score-picker"),
    }
    refs = [*config["requestHandler"]["parsers"], *config["schedulingProfiles"][0]["plugins"]]
    assert {each["pluginRef"] for each in refs} <= set(plugins)
    assert plugins["metrics-data-source"] == {"port": ports["metrics"]}
    extractor, page = plugins["core-metrics-extractor"], Metrics().snapshot()
    (engine,) = extractor["engineConfigs"]
    assert engine.pop("name") == extractor["defaultEngine"]
    assert {page[each]["kind"] for each in engine.values()} == {"gauge"}
    assert set(engine) == {"queuedRequestsSpec", "runningRequestsSpec"}


def test_prometheus_finds_the_metrics(manifests: list[Manifest]) -> None:
    """By the documentation of ServiceMonitor: `selector` is of Services, `port` the name of their port."""
    monitor = one(manifests, "ServiceMonitor")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    service = one(manifests, "Service", "limelight-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == JOB


def test_rules_dashboard_and_scrapes_know_one_job(manifests: list[Manifest]) -> None:
    """What the operators of a cluster read is what the plain files say, and names the job that every scrape gets."""
    made = runpy.run_path(str(KUBERNETES / "monitoring.py"))["MADE"]
    kinds = {"rules.yaml": ("PrometheusRule", "limelight"), "dashboard.yaml": ("ConfigMap", "limelight-dashboard")}
    for name, make in made.items():
        built = one(manifests, *kinds[name])
        del built["metadata"]["namespace"]
        assert built == make(), "run python deploy/kubernetes/monitoring.py"
    groups = one(manifests, "PrometheusRule")["spec"]["groups"]
    assert len({each["name"] for each in groups}) == len(groups)
    expressions = [each.text for each in everything()]
    expressions += [trigger["metadata"]["query"] for trigger in triggers(manifests)]
    jobs = {job for text in expressions for job in re.findall(r'job="([^"]*)"', text)}
    (scraped,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    (monitor,) = documents(KSERVE / "podmonitor.yaml")
    check(monitor)
    relabelled = monitor["spec"]["podMetricsEndpoints"][0]["relabelings"][-1]
    assert jobs | {scraped["job_name"], relabelled["replacement"]} == {JOB} and relabelled["targetLabel"] == "job"


def triggers(manifests: list[Manifest]) -> list[dict[str, Any]]:
    """The triggers of KEDA, where an overlay has it."""
    return [each for found in manifests if found["kind"] == "ScaledObject" for each in found["spec"]["triggers"]]


def test_both_autoscalers_brake_alike_and_read_the_saturation() -> None:
    scaled = one(build(KUBERNETES / "overlays" / "cpu"), "ScaledObject")["spec"]
    manifests = build(KUBERNETES / "overlays" / "gateway")
    spec = one(manifests, "HorizontalPodAutoscaler")["spec"]
    assert spec["behavior"] == scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    (up,) = spec["behavior"]["scaleUp"]["policies"]
    assert (up["type"], up["value"]) == ("Percent", 100)  # twice as many at most, and then a pause
    assert spec["scaleTargetRef"]["name"] == one(manifests, "Deployment")["metadata"]["name"]
    assert "replicas" not in one(manifests, "Deployment")["spec"]
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"]["name"] == SATURATION
    threshold = float(scaled["triggers"][0]["metadata"]["threshold"])
    assert metric["pods"]["target"]["averageValue"] == f"{1000 * threshold:.0f}m" and threshold < 1


@pytest.mark.parametrize("overlay", ["cpu", "cuda"])
def test_keda_scales_the_deployment_on_metrics_that_the_server_has(overlay: str) -> None:
    """By KEDA's documentation of ScaledObject and of its Prometheus scaler, whose metadata are strings."""
    manifests = build(KUBERNETES / "overlays" / overlay)
    scaled = one(manifests, "ScaledObject")
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    spec = scaled["spec"]
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
    # What is refused is part of the one, and hides nothing of the other.
    assert SATURATION in queries[0] and "histogram_quantile(0.95" in queries[1] and 'grpc_code="OK"' in queries[1]


def test_prometheus_can_read_the_queries(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    manifests = build(KUBERNETES / "overlays" / "cpu")
    queries = [each["metadata"]["query"] for each in triggers(manifests)]
    rules = [{"record": f"query:{place}", "expr": each} for place, each in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    groups = one(manifests, "PrometheusRule")["spec"]["groups"]
    file.write_text(yaml.safe_dump({"groups": [*groups, {"name": "queries", "rules": rules}]}))
    count = sum(len(each["rules"]) for each in groups) + len(rules)
    result = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and f"{count} rules found" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("runtime_file", "service_file", "models"),
    [
        ("runtime.yaml", "inferenceservice.yaml", ["--model", "{{.Name}}=/mnt/models"]),
        ("repository.yaml", "inferenceservice-repository.yaml", ["--repository", "/mnt/models"]),
    ],
)
def test_kserve_finds_the_runtime_for_the_service(runtime_file: str, service_file: str, models: list[str]) -> None:
    """By KServe's documentation of both resources: format, protocol and container have the names that it expects."""
    (runtime,), (service,) = documents(KSERVE / runtime_file), documents(KSERVE / service_file)
    assert (runtime["apiVersion"], runtime["kind"]) == ("serving.kserve.io/v1alpha1", "ClusterServingRuntime")
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    model = service["spec"]["predictor"]["model"]
    (format_,) = runtime["spec"]["supportedModelFormats"]
    assert model["modelFormat"] == {name: format_[name] for name in ("name", "version")}
    assert format_.get("autoSelect", False) == (runtime_file == "runtime.yaml")
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    (container,) = runtime["spec"]["containers"]
    assert container["name"] == "kserve-container" and container["args"][:2] == models
    settings = settings_of(container | {"args": container["args"][2:]})
    # The first port is that of REST, and gRPC is told by its name: `isGrpcPort` of KServe's service reconciler.
    rest, grpc = container["ports"]
    assert (settings.http_port, settings.port) == (rest["containerPort"], grpc["containerPort"])
    assert [any(each in port["name"] for each in ("grpc", "h2c")) for port in (rest, grpc)] == [False, True]
    assert set(runtime["spec"]["protocolVersions"]) == {"v2", "grpc-v2"}
    assert [container[f"{probe}Probe"]["grpc"]["port"] for probe in ("startup", "readiness")] == [settings.port] * 2
    assert container["livenessProbe"]["tcpSocket"]["port"] == settings.port
    ready = container["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] <= settings.drain_seconds
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


def test_the_runtimes_of_kserve_differ_in_their_models_alone() -> None:
    one_model, all_models = (documents(KSERVE / name)[0]["spec"] for name in ("runtime.yaml", "repository.yaml"))
    for each in (one_model, all_models):
        del each["containers"][0]["args"][:2], each["supportedModelFormats"]
    assert one_model == all_models
