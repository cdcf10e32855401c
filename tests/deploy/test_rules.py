"""The files of Prometheus, Grafana and Compose, without running any of them but promtool."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from limelight_service.settings import Settings
from tests.deploy.expressions import DASHBOARD, DEPLOY, PROMETHEUS, everything, rules

VARIABLES = {"$cluster", "$namespace", "$job", "$model", "$__rate_interval"}


def promtool(*arguments: str) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    result = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_rules_do_what_their_unit_tests_say() -> None:
    promtool("test", "rules", "rules_test.yml")


def test_the_configuration_and_every_rule_are_valid() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "rules.yml", "alerts.yml")


def test_every_alert_fires_in_a_unit_test() -> None:
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in rules("alerts.yml")}


def test_the_dashboard_is_the_one_that_its_script_writes() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    script = DEPLOY / "grafana" / "dashboard.py"
    made = subprocess.run([sys.executable, script, "--print"], capture_output=True, text=True, check=True).stdout
    assert made == DASHBOARD.read_text(encoding="utf-8"), f"run python {script.relative_to(DEPLOY.parent)}"


def test_every_panel_has_a_description_and_a_place_of_its_own() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["description"] and panel["targets"] for panel in panels if panel["type"] != "row")
    assert all(panel.get("options", {}) is not None for panel in panels)


def test_expressions_have_only_variables_that_the_dashboard_defines() -> None:
    used = {name for each in everything() for name in re.findall(r"\$\w+", each.text)}
    assert used == VARIABLES
    defined = json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]
    assert {f"${each['name']}" for each in defined} == VARIABLES - {"$__rate_interval"} | {"$datasource"}


def test_the_compose_file_mounts_and_sets_what_there_is() -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"limelight", "prometheus", "grafana"}
    for service in services.values():
        assert set(service) <= {"build", "image", "command", "environment", "volumes", "ports"}
        for volume in service.get("volumes", ()):
            source = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
            assert (DEPLOY / source).exists(), source
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    build = services["limelight"]["build"]
    dockerfile = (DEPLOY / build["context"] / build["dockerfile"]).read_text(encoding="utf-8")
    assert f" AS {build['target']}\n" in dockerfile
    for variable in services["limelight"]["environment"]:
        assert hasattr(Settings, variable.removeprefix("LIMELIGHT_").lower())
    # The names that the configurations know are those of the services.
    (job,) = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"limelight:{Settings.metrics_port}"]}]
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "limelight.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "limelight.yml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/{DASHBOARD.name}" in mounted


def test_the_script_of_the_dashboard_has_its_package_among_the_extras() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(each.startswith("grafana-foundation-sdk") for each in project["optional-dependencies"]["dev"])
