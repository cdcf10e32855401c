"""Calls a server with the client alone, in an environment that holds `limelight-client` and one version of protobuf."""

import asyncio
import json
import sys

import google.protobuf

import limelight

SEED = 2**64 - 1


async def attend(target):
    async with limelight.AsyncClient(target) as client:
        return await client.attend("tiny", {"text": "a mat"}, layers=-1)


def main(target):
    with limelight.Client(target) as client:
        answer = client.attend("tiny", {"text": "a mat"}, layers=-1)
        sampled = client.predict("echo", {"text": "a"}, generation=limelight.Generation(strategy="sample"), seed=SEED)
        try:
            client.attend("nope", {"text": "a mat"})
        except limelight.NotFound as error:
            assert "there is no model 'nope'" in str(error)
        else:
            sys.exit("no error")
    (each,) = answer.maps
    assert each == asyncio.run(attend(target)).maps[0]
    assert (each.name, each.key.labels, sampled.seed) == ("encoder.1.self", ("a", "mat"), SEED)
    print(google.protobuf.__version__, limelight.__version__)
    print(json.dumps([each.weights.tolist(), answer.prediction.outputs["logits"].tolist(), each.key.ids.tolist()]))


if __name__ == "__main__":
    main(sys.argv[1])
