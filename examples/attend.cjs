// Calls Limelight from JavaScript with nothing but the .proto files: node examples/attend.cjs "7 March 2021"
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
  model: { name: "dates" },
  instances: [{ inputs: { text: { text: process.argv[2] } } }],
  attention: { selections: [{ names: ["decoder.cross"] }] },
};
client.Attend(request, { deadline: Date.now() + 10_000 }, (error, answer) => {
  if (error) {
    console.error(error.details);
    process.exit(1);
  }
  const [{ prediction, maps }] = answer.results;
  const [map] = maps;
  const texts = (name) => prediction.label_sets.find((set) => set.name === name).texts;
  const [written, read] = [texts(map.query_labels), texts(map.key_labels)];
  const weights = new Float32Array(new Uint8Array(map.weights.data).buffer); // [head, query, key]: one head
  console.log(prediction.results[0].sequences.sequences[0].text);
  written.forEach((step, index) => {
    const row = weights.subarray(index * read.length, (index + 1) * read.length);
    const most = row.indexOf(Math.max(...row));
    console.log(step, "looks at", JSON.stringify(read[most]), row[most].toFixed(3));
  });
  client.close();
});
