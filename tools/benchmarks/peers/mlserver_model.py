"""The model that MLServer runs: ONNX Runtime, a row a run, one thread each. Runs with MLServer's own packages."""

import asyncio

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Encoder(MLModel):
    """The runtime that model-settings.json names."""

    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        graph = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feeds = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        names = [each.name for each in payload.outputs or ()]
        found = await asyncio.to_thread(self.session.run, names, feeds)
        outputs = [NumpyCodec.encode_output(name, output) for name, output in zip(names, found, strict=True)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
