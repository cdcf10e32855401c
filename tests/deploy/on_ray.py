"""Runs deploy/ray on a local Ray of two replicas until its standard input ends; for the environment with Ray alone.

Arguments: a folder of models, the port of the proxy. Prints the process ids of the replicas once all are there.
"""

import sys
from pathlib import Path

import ray
import yaml
from ray import serve
from ray.serve.config import gRPCOptions

DEPLOY = Path(__file__).parents[2] / "deploy" / "ray"


def main(repository: str, port: int) -> None:
    """Start Ray with as little as it takes, and the application as its file has it, but for size and place."""
    config = yaml.safe_load((DEPLOY / "serve.yaml").read_text())
    (application,) = config["applications"]
    (deployment,) = application["deployments"]
    ray.init(
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(DEPLOY)}},
    )
    try:
        options = gRPCOptions(**(config["grpc_options"] | {"port": port}))
        serve.start(proxy_location="HeadOnly", http_options={"port": 0}, grpc_options=options)
        sys.path.insert(0, str(DEPLOY))
        import limelight_on_ray

        settings = application["args"] | {"repository": repository, "cores": 1, "cache_dir": "none"}
        scaling = deployment["autoscaling_config"] | {"min_replicas": 2, "max_replicas": 2}
        sized = limelight_on_ray.Limelight.options(
            **deployment
            | {"ray_actor_options": {"num_cpus": 0.5}, "autoscaling_config": scaling, "health_check_period_s": 2}
        )
        serve.run(sized.bind(settings), name=application["name"])
        print("replicas", *replicas(), flush=True)
        sys.stdin.read()
    finally:
        serve.shutdown()
        ray.shutdown()


def replicas() -> list[int]:
    """Give the processes that Ray has named after the deployment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
        except OSError:  # it ended
            continue
        if title.startswith(b"ray::ServeReplica:limelight"):
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
