"""Metrics as a scraper finds them."""

from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from limelight_service.observability.exposition import SnapshotCollector
from limelight_service.observability.metrics import Metrics


def counted(*processes: Metrics) -> dict[str, float]:
    """Read the page of the metrics of these processes, as `parsed` does."""
    return parsed(generate_latest(SnapshotCollector(lambda: [each.snapshot() for each in processes])))


def parsed(page: bytes) -> dict[str, float]:
    """Read a page in the text format: values by name and labels, the labels in order of their names."""
    found = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found
