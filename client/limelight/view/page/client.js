// Calls of limelight.v1 as JSON over HTTP. Arrays arrive as bytes behind the JSON; every tensor gets its `values`.

const BYTES = "application/octet-stream";
const MOST_OF_AN_EVENT = 2 ** 26;
const ARRAYS = {
  DATA_TYPE_FLOAT32: Float32Array,
  DATA_TYPE_FLOAT64: Float64Array,
  DATA_TYPE_INT32: Int32Array,
  DATA_TYPE_INT64: BigInt64Array,
  DATA_TYPE_UINT8: Uint8Array,
  DATA_TYPE_BOOL: Uint8Array,
};

/** An error that a person reads. */
export class Problem extends Error {}

/** What a person reads of an error; one that is no Problem is logged as well. */
export function told(error) {
  if (error instanceof Problem) return error.message;
  console.error(error);
  return `This could not be shown: ${error.message}`;
}

export class Client {
  /** key: what the page's server asks of its own page; empty for nothing. */
  constructor(key) {
    this.key = key;
  }

  /** Versions of models, with their states. */
  async models() {
    return (await this.#json("GET", "/v1/models")).models ?? [];
  }

  /** GetModelResponse of a model: { name, version }. */
  async describe(model) {
    return this.#json("GET", path(model));
  }

  /** The answer to one instance: { prediction, maps }. */
  async attend(model, request, signal) {
    const answer = await this.#json("POST", `${path(model)}:attend`, request, signal);
    return { maps: [], ...answer.results[0] };
  }

  async predict(model, request, signal) {
    const answer = await this.#json("POST", `${path(model)}:predict`, request, signal);
    return { maps: [], prediction: answer.predictions[0] };
  }

  /** The Explanation of the answer to one instance. */
  async explain(model, request, signal) {
    const answer = await this.#json("POST", `${path(model)}:explain`, request, signal);
    return answer.explanations[0];
  }

  /** Let the page's own server keep a head of a long input: { name, largest }. request: of AttendStream. */
  async keep(model, request, signal) {
    const response = await this.#send("POST", "/heads", { model: path(model), request }, "application/json", signal);
    return response.json();
  }

  /** Means of a window of a head that is kept: [row, column], of at most so many. */
  async window(name, [first, end, left, right], [rows, columns], signal) {
    const where = `/heads/${name}?rows=${first}-${end}&columns=${left}-${right}&most=${rows}x${columns}`;
    const response = await this.#send("GET", where, undefined, BYTES, signal);
    return new Float32Array(await response.arrayBuffer());
  }

  /** Events of a generation: [name, message]. */
  async *generate(model, request, signal) {
    const response = await this.#send("POST", `${path(model)}:generate`, request, "text/event-stream", signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      const { value, done } = await reader.read();
      waiting += value ?? "";
      if (waiting.length > MOST_OF_AN_EVENT) throw new Problem("The server sent an event without an end.");
      const events = waiting.split("\n\n");
      waiting = events.pop();
      for (const each of events) {
        const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(each);
        const message = withNumbers(JSON.parse(data));
        if (event === "error") throw new Problem(message.error.message);
        yield [event, message[event] ?? {}];
      }
      if (done) return;
    }
  }

  async #json(verb, where, request, signal) {
    const response = await this.#send(verb, where, request, BYTES, signal);
    const buffer = await response.arrayBuffer();
    const length = Number(response.headers.get("Limelight-Json-Length") ?? buffer.byteLength);
    const message = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 0, length)));
    return withArrays(message, buffer, length);
  }

  async #send(verb, where, request, accept, signal) {
    const headers = { Accept: accept };
    if (this.key) headers["X-Limelight-Key"] = this.key;
    if (request) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(where, { method: verb, headers, body: request && JSON.stringify(request), signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem("The page's own server does not answer: is `limelight view` still running?");
    }
    if (response.ok) return response;
    throw Object.assign(new Problem(await failure(response)), { status: response.status });
  }
}

/** The answers to the models' examples, as files beside the page: a copy of the page without a server. */
export class Recorded {
  async models() {
    return (await read("models.json").then((response) => response.json())).models;
  }

  async describe({ file }) {
    return withNumbers(await read(`answers/${file}.json`).then((response) => response.json()));
  }

  async attend({ file }, request, signal, example) {
    if (example === null)
      throw new Problem("This copy of the page has no server: it has the answers to the models' examples.");
    const buffer = await read(`answers/${file}-${example}.bin`, signal).then((response) => response.arrayBuffer());
    const answer = unpacked(buffer);
    const { explanation } = answer;
    return { maps: [], explanation, ...(answer.results?.[0] ?? { prediction: answer.predictions[0] }) };
  }

  async explain(...given) {
    const { explanation } = await this.attend(...given);
    if (!explanation) throw new Problem("This copy of the page has no explanation of this answer.");
    return explanation;
  }

  predict(...given) {
    return this.attend(...given);
  }

  async *generate() {}
}

/** Read an answer in one piece: the length of its JSON and a line end, the JSON, the bytes of its arrays. */
export function unpacked(buffer) {
  const bytes = new Uint8Array(buffer);
  const start = bytes.indexOf(10) + 1;
  const length = Number(new TextDecoder().decode(bytes.subarray(0, start)));
  const message = JSON.parse(new TextDecoder().decode(bytes.subarray(start, start + length)));
  return withArrays(message, buffer, start + length);
}

async function read(file, signal) {
  const response = await fetch(file, { signal });
  if (!response.ok) throw new Problem(`This copy of the page lacks ${file}.`);
  return response;
}

function path({ name, version }) {
  return `/v1/models/${encodeURIComponent(name)}` + (version ? `/versions/${version}` : "");
}

async function failure(response) {
  try {
    // People know an input by its name, not by its path in the request.
    return (await response.json()).error.message.replace(/instances\[0\]\.inputs\["(.*?)"\][.\w]*/g, "$1");
  } catch {
    return `The server answered with HTTP status ${response.status}.`;
  }
}

/** Give every tensor of an answer its values: a typed array over the bytes behind the JSON. */
function withArrays(value, buffer, start) {
  if (Array.isArray(value))
    return typeof value[0] === "object" ? value.map((each) => withArrays(each, buffer, start)) : value;
  if (value === null || typeof value !== "object") return value;
  if (value.dataType && value.offset !== undefined) {
    const kind = ARRAYS[value.dataType];
    const from = start + value.offset;
    // The JSON's length is no multiple of an element's size: such bytes are copied.
    return {
      ...value,
      shape: value.shape ?? [],
      values: kind ? new kind(buffer.slice(from, from + value.bytes)) : null,
    };
  }
  if (value.dataType && Array.isArray(value.data)) return withNumbers(value);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withArrays(each, buffer, start)]));
}

/** The same for an answer whose tensors are nested lists of numbers. */
function withNumbers(value) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map(withNumbers) : value;
  if (value === null || typeof value !== "object") return value;
  if (value.dataType && value.data !== undefined) {
    return { ...value, shape: value.shape ?? [], values: Float64Array.from([value.data].flat(Infinity), Number) };
  }
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withNumbers(each)]));
}
