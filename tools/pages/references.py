"""Writes the references of drift into a bundle: how attention looks over held-out inputs, as an export does.

    python -m pages.references deploy/demo dates --builtin dates
    python -m pages.references REPOSITORY MODEL --inputs FILE

FILE has the form that `limelight predict --file` reads. The repository is served, and nothing else of the bundle
changes. For bundles of earlier exports, and imported ones.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf import json_format

import limelight
from limelight.cli import input_rows
from limelight.v1 import values_pb2
from limelight_bundle.attention_drift import FEWEST_INPUTS, MOST_INPUTS
from limelight_bundle.attention_signals import is_observable, references
from limelight_bundle.maps import MapWeights
from limelight_bundle.names import BUNDLE_FILE
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.rows import Labels
from limelight_bundle.wire import instance_from_wire, instance_to_wire
from limelight_models.data.generated import SETS


@contextmanager
def served(repository: Path) -> Iterator[limelight.Client]:
    """Serve a repository; gives a client."""
    program = Path(sys.executable).with_name("limelight")
    command = (program, "serve", "--repository", str(repository), "--provider", "cpu", "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            assert running.stdout is not None
            found = (re.search(r"serving on ([^\s,]+)", line) for line in running.stdout)
            address = next(each[1] for each in found if each)
            with limelight.Client(address) as client:
                yield client
        finally:
            running.terminate()


def generated(builtin: str, folder: BundleFolder, most: int) -> list[values_pb2.Instance]:
    """Give held-out inputs of a set that is made here; without its optional ones, which force an answer."""
    examples = list(SETS[builtin].make(seed=0).test)
    required = {each.name for each in folder.bundle.description.inputs if not each.optional}
    chosen = random.Random(0).sample(examples, min(most, len(examples)))
    return [
        instance_to_wire({name: value for name, value in each.instance.items() if name in required}) for each in chosen
    ]


def looked_at(
    client: limelight.Client, folder: BundleFolder, instances: Iterable[values_pb2.Instance]
) -> Iterator[tuple[dict[str, MapWeights], dict[str, Labels]]]:
    """Yield maps and labels of each instance; those that the server refuses are left out."""
    description, preprocessor = folder.bundle.description, Preprocessor(folder)
    names = [each.name for each in description.maps if is_observable(each)]
    given = list(instances)
    answers = client.attend_many(description.name, given, version=description.version, maps=names)
    for instance, answer in zip(given, answers, strict=True):
        if isinstance(answer, limelight.Error):
            print(f"left out: {answer}", file=sys.stderr)
            continue
        weights = {
            each.name: MapWeights(
                each.weights, each.edges and each.edges.query_index, each.edges and each.edges.key_index
            )
            for each in answer.maps
        }
        yield weights, dict(preprocessor.row(instance_from_wire(instance, ("",))).labels)


def main() -> None:
    """Write the references of a model's highest version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("model")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--builtin", choices=sorted(SETS), default="")
    source.add_argument("--inputs", type=Path)
    parser.add_argument("--most", type=int, default=MOST_INPUTS, help="inputs at most")
    asked = parser.parse_args()
    versions = [each for each in (asked.repository / asked.model).iterdir() if each.name.isdigit()]
    folder = read_bundle(max(versions, key=lambda each: int(each.name)))
    with served(asked.repository) as client:
        if asked.inputs is None:
            instances = generated(asked.builtin, folder, asked.most)
        else:
            read = [each for _, each in input_rows.instances(asked.inputs, client.model(asked.model))]
            instances = [each for each in read if isinstance(each, values_pb2.Instance)][: asked.most]
        found = references(folder.bundle.description.maps, looked_at(client, folder, instances))
    if not found:
        sys.exit(f"{asked.model} has no references: they need {FEWEST_INPUTS} inputs, and maps that are distributions")
    file = folder.path / BUNDLE_FILE
    bundle = json.loads(file.read_text(encoding="utf-8"))
    bundle["attention_references"] = [
        json_format.MessageToDict(each, preserving_proto_field_name=True) for each in found
    ]
    file.write_text(json.dumps(bundle, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{file}: {len(found)} references of {found[0].inputs} inputs")


if __name__ == "__main__":
    main()
