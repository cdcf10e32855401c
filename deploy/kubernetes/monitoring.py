"""Writes the rules and the dashboard as the Prometheus Operator and Grafana's sidecar read them from a cluster:
`python deploy/kubernetes/monitoring.py`.
"""

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1]
MONITORING = DEPLOY / "kubernetes" / "components" / "monitoring"


def rules() -> dict[str, Any]:
    """Make the PrometheusRule of the files of rules and alerts."""
    files = [DEPLOY / "prometheus" / name for name in ("rules.yml", "alerts.yml")]
    groups = [group for each in files for group in yaml.safe_load(each.read_text(encoding="utf-8"))["groups"]]
    labels = {"app.kubernetes.io/name": "limelight"}
    metadata = {"name": "limelight", "labels": labels}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": groups},
    }


def dashboard() -> dict[str, Any]:
    """Make the ConfigMap of the dashboard."""
    file = DEPLOY / "grafana" / "limelight.json"
    metadata = {"name": "limelight-dashboard", "labels": {"grafana_dashboard": "1"}}
    data = {file.name: file.read_text(encoding="utf-8")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


MADE = {"rules.yaml": rules, "dashboard.yaml": dashboard}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)

if __name__ == "__main__":
    for name, make in MADE.items():
        text = yaml.dump(make(), Dumper=_Dumper, sort_keys=False, width=10**6)
        (MONITORING / name).write_text(f"# Made by deploy/kubernetes/monitoring.py.\n{text}", encoding="utf-8")
