"""Runs deploy/ray on a local Ray of two replicas until its standard input ends; for the environment with Ray alone.

Arguments: a folder of models, the port of the proxy, its port for HTTP. Prints the process ids of the replicas once all
are there.
"""

import sys
import time
from pathlib import Path
from typing import Any

import ray
import yaml
from ray import serve
from ray.serve._private.api import serve_start
from ray.serve.schema import ServeDeploySchema

DEPLOY = Path(__file__).parents[2] / "deploy" / "ray"


def main(repository: str, port: int, http_port: int) -> None:
    """Start Ray with as little as it takes, and the application as `serve run` does it."""
    sys.path.insert(0, str(DEPLOY))  # where Ray finds the policy of scaling as it reads the file
    config = ServeDeploySchema(**sized(yaml.safe_load((DEPLOY / "serve.yaml").read_text()), repository, port))
    ray.init(
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(DEPLOY)}},
    )
    try:
        client = serve_start(
            proxy_location=config.proxy_location,
            http_options={"port": http_port},
            grpc_options=config.grpc_options.model_dump(),
        )
        client.deploy_apps(config)
        await_running(config.applications[0].name)
        print("replicas", *replicas(), flush=True)
        sys.stdin.read()
    finally:
        serve.shutdown()
        ray.shutdown()


def await_running(name: str) -> None:
    """Wait until an application runs, however busy the machine is. Raises RuntimeError where it does not start."""
    while True:
        application = serve.status().applications[name]
        if application.status == "RUNNING":
            return
        if application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            raise RuntimeError(application.message)
        time.sleep(0.2)


def sized(config: dict[str, Any], repository: str, port: int) -> dict[str, Any]:
    """Give the configuration with two small replicas on another port."""
    (application,) = config["applications"]
    (deployment,) = application["deployments"]
    application["args"] |= {"repository": repository, "cores": 1, "cache_dir": "none"}
    deployment["ray_actor_options"] = {"num_cpus": 0.5}
    deployment["autoscaling_config"] |= {"min_replicas": 2, "max_replicas": 2}
    config["grpc_options"]["port"] = port
    return config


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
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
