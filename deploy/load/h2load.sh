#!/bin/sh
# h2load (Debian package nghttp2-client) sends one request again and again: the most that a server takes, since the
# generator is written in C. It counts HTTP statuses. A call that gRPC refuses counts as one that succeeded: look at the
# server's metrics (grpc_server_handled_total) as well.
#
#   deploy/load/h2load.sh dates "7 March 2021"          # a running server on 127.0.0.1:50051; needs limelight installed
#   TARGET=models:50051 CALLERS=64 REQUESTS=20000 deploy/load/h2load.sh dates "7 March 2021"
set -eu
: "${TARGET:=127.0.0.1:50051}" "${CALLERS:=16}" "${REQUESTS:=1000}" "${CONNECTIONS:=4}" "${PYTHON:=python3}"
body=$(mktemp)
trap 'rm -f "$body"' EXIT
# A message of gRPC: a byte (0: not compressed), the length in four, the request.
"$PYTHON" - "$TARGET" "$@" >"$body" <<'PYTHON'
import struct
import sys

import limelight
from limelight import requests

target, model, *texts = sys.argv[1:]
with limelight.Client(target) as client:
    described = client.model(model)
names = [each.name for each in described.required_inputs]
inputs = dict(zip(names, texts, strict=True)) if texts else described.examples[0]
data = requests.predict_request(model, inputs).SerializeToString()
sys.stdout.buffer.write(struct.pack(">BI", 0, len(data)) + data)
PYTHON
h2load --requests="$REQUESTS" --clients="$CONNECTIONS" --max-concurrent-streams="$((CALLERS / CONNECTIONS))" \
  --data="$body" --header="content-type: application/grpc" --header="te: trailers" \
  "http://$TARGET/limelight.v1.AttentionService/Predict"
