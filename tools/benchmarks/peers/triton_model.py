"""The model that Triton's python backend runs: ONNX Runtime behind Triton's own queue and batches.

Runs in Triton's process, with the packages of its virtual environment. A batch's requests are of equal shapes, as
Triton's dynamic batcher joins no others.
"""

import json
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton  # comes with the backend


class TritonPythonModel:
    """The class that the Python backend looks for in this file."""

    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(parameters["threads"]["string_value"])
        options.log_severity_level = 3
        graph = parameters["graph"]["string_value"]
        providers: list[Any] = ["CPUExecutionProvider"]
        if parameters["provider"]["string_value"] == "cuda":  # products of float32 as precise as the server's own
            onnxruntime.preload_dlls()
            providers.insert(0, ("CUDAExecutionProvider", {"use_tf32": "0"}))
        self.session = onnxruntime.InferenceSession(graph, options, providers=providers)
        if len(providers) != len(self.session.get_providers()):
            raise RuntimeError(f"the graph was opened with {self.session.get_providers()} alone")
        optional = self.session.get_overridable_initializers()
        self.gates = {each.name: np.array(True) for each in optional if each.type == "tensor(bool)" and not each.shape}

    def execute(self, requests: list[Any]) -> list[Any]:
        feeds = {
            each.name: np.concatenate([triton.get_input_tensor_by_name(one, each.name).as_numpy() for one in requests])
            for each in self.session.get_inputs()
        }
        names = sorted({name for one in requests for name in one.requested_output_names()})
        if len(names) > 1:  # more than the logits: a graph that leaves maps out by default is told to compute them
            feeds |= self.gates
        found = self.session.run(names, feeds)
        answers, start = [], 0
        for one in requests:
            rows = len(triton.get_input_tensor_by_name(one, "token_ids").as_numpy())
            wanted = set(one.requested_output_names())
            answers.append(
                triton.InferenceResponse(
                    [
                        triton.Tensor(name, np.ascontiguousarray(output[start : start + rows]))
                        for name, output in zip(names, found, strict=True)
                        if name in wanted
                    ]
                )
            )
            start += rows
        return answers
