// Calls Limelight from JavaScript with nothing but the .proto files: node examples/attend.cjs "Opens a socket."
// Needs: npm install @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1
const fs = require("node:fs");
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const root = path.join(__dirname, "..", "proto");
const definition = loader.loadSync("limelight/v1/service.proto", { includeDirs: [root], keepCase: true, longs: Number });
const { AttentionService } = grpc.loadPackageDefinition(definition).limelight.v1;
const { LIMELIGHT_TARGET: target = "127.0.0.1:50051", LIMELIGHT_CA: ca, LIMELIGHT_TOKEN: token } = process.env;
const client = new AttentionService(target, credentials());

// For a server that is locked: TLS, and a token that goes with every call, and over TLS only.
function credentials() {
  if (!ca) return grpc.credentials.createInsecure();
  const channel = grpc.credentials.createSsl(fs.readFileSync(ca));
  if (!token) return channel;
  const metadata = new grpc.Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const call = grpc.credentials.createFromMetadataGenerator((_, done) => done(null, metadata));
  return grpc.credentials.combineChannelCredentials(channel, call);
}

const request = {
  model: { name: "han" },
  instances: [{ inputs: { document: { text: process.argv[2] } } }],
  attention: { selections: [{ names: ["word"] }] },
};
client.Attend(request, { deadline: Date.now() + 10_000 }, (error, answer) => {
  if (error) {
    console.error(error.details);
    process.exit(1);
  }
  const [{ prediction, maps }] = answer.results;
  const best = prediction.results[0].classification.classes[0];
  console.log(best.label, best.probability.toFixed(3));
  const words = prediction.label_sets.find((set) => set.name === maps[0].key_labels).texts;
  const weights = new Float32Array(new Uint8Array(maps[0].weights.data).buffer); // [head, edge]: one head, an edge a word
  words.forEach((word, index) => console.log(weights[index].toFixed(3), word));
  client.close();
});
