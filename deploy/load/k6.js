// k6 run deploy/load/k6.js -e TARGET=127.0.0.1:50051
//
// NOT RUN by this project's tests: k6 is in no package that they install. They hold the request to the protocol.
// The server describes its protocol by reflection (off with --no-reflection). An open loop: RATE calls a second.
import grpc from 'k6/net/grpc';
import { check } from 'k6';

const TARGET = __ENV.TARGET || '127.0.0.1:50051';
const RATE = Number(__ENV.RATE || 100);

export const options = {
  scenarios: {
    calls: { executor: 'constant-arrival-rate', rate: RATE, duration: '30s', preAllocatedVUs: 64, maxVUs: 512 },
  },
  thresholds: { grpc_req_duration: ['p(99)<100'], checks: ['rate>0.99'] },
};

const METHOD = 'limelight.v1.AttentionService/Attend';
// One row of one map, beside the prediction.
const REQUEST = {
  "model": { "name": "dates" },
  "instances": [{ "inputs": { "text": { "text": "7 March 2021" } } }],
  "attention": { "selections": [{ "names": ["decoder.cross"], "queries": [0] }] }
};

const client = new grpc.Client();
let connected = false;

export default function () {
  if (!connected) {
    client.connect(TARGET, { plaintext: true, reflect: true });
    connected = true;
  }
  const answer = client.invoke(METHOD, REQUEST);
  check(answer, { 'status is OK': (each) => each && each.status === grpc.StatusOK });
}
