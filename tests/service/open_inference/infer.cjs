// Asks for an answer with a row of a map, for tokens of a stream, and for a model that is not there; prints JSON.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [target, proto] = process.argv.slice(2);
const { inference } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, longs: Number }));
const client = new inference.GRPCInferenceService(target, grpc.credentials.createInsecure());
const text = { name: "text", datatype: "BYTES", shape: [1], contents: { bytes_contents: [Buffer.from("the cat sat")] } };
const heads = { limelight_heads: { int64_param: 1 }, limelight_queries: { int64_param: 0 } };

client.modelInfer(
  {
    model_name: "tiny",
    inputs: [text],
    outputs: [{ name: "logits" }, { name: "encoder.0.self", parameters: heads }, { name: "tokens.labels" }],
  },
  (error, answer) => {
    if (error) throw error;
    const [logits, map, labels] = answer.outputs.map((each) => each.contents);
    const stream = client.modelStreamInfer();
    const parts = [];
    stream.on("data", (part) => parts.push(part.infer_response.parameters.triton_final_response.bool_param));
    stream.on("end", () =>
      client.modelInfer({ model_name: "nothing", inputs: [text] }, ({ code }) => {
        const tokens = labels.bytes_contents.map(String);
        console.log(JSON.stringify({ logits: logits.fp32_contents, weights: map.fp32_contents, tokens, parts, code }));
        client.close();
      }),
    );
    stream.write({ model_name: "echo", inputs: [text] });
    stream.end();
  },
);
