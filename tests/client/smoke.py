"""Imports the client, builds a request, and decodes an answer from a server in this process. Needs the client alone.

Run with the Python of an environment that holds `limelight-client` and one version of protobuf.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import google.protobuf
import grpc
import numpy as np

import limelight
from limelight.tensors import to_tensor
from limelight.v1 import attention_pb2, service_pb2, service_pb2_grpc


class Servicer(service_pb2_grpc.AttentionServiceServicer):
    def Attend(self, request, context):
        if request.model.name != "smoke":
            context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
        assert request.attention.selections[0].layers == [-1]
        words = request.instances[0].inputs["text"].text.split()
        size, ids = len(words), range(len(words))
        labels = attention_pb2.LabelSet(name="tokens", kind="LABEL_KIND_TOKENS", size=size, texts=words, ids=ids)
        weights = to_tensor(np.full((1, len(words), len(words)), 1 / len(words), np.float32))
        each = attention_pb2.AttentionMap(
            name="self", query_labels="tokens", key_labels="tokens", heads=[0], weights=weights
        )
        prediction = service_pb2.Prediction(seed=request.instances[0].seed, label_sets=[labels])
        prediction.results.add(name="class").classification.classes.add(label="yes", probability=1.0)
        prediction.outputs["logits"].CopyFrom(to_tensor(np.array([2, 1], np.int64)))
        answer = service_pb2.Attended(prediction=prediction, maps=[each])
        return service_pb2.AttendResponse(results=[answer] * len(request.instances))


def check(answer):
    assert (answer.prediction.label, answer["self"].key.labels) == ("yes", ("a", "b"))
    assert answer["self"].weights.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert (answer.prediction.seed, answer["self"].key.ids.tolist()) == (2**64 - 1, [0, 1])
    assert answer.prediction.outputs["logits"].tolist() == [2, 1]


async def attend(target):
    async with limelight.AsyncClient(target) as client:
        return await client.attend("smoke", {"text": "a b"}, layers=-1, seed=2**64 - 1)


def main():
    server = grpc.server(ThreadPoolExecutor(2))
    service_pb2_grpc.add_AttentionServiceServicer_to_server(Servicer(), server)
    target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    with limelight.Client(target) as client:
        check(client.attend("smoke", {"text": "a b"}, layers=-1, seed=2**64 - 1))
        try:
            client.attend("nope", {"text": "a b"})
        except limelight.NotFound as error:
            assert str(error) == "no such model"
        else:
            sys.exit("no error")
    check(asyncio.run(attend(target)))
    server.stop(None)
    print(google.protobuf.__version__, limelight.__version__)


if __name__ == "__main__":
    main()
