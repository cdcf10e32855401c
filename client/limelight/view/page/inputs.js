// The form of a model's inputs: texts, pairs, pictures, sounds, graphs and tensors, and the model's examples.

import { Problem } from "./client.js";
import { element } from "./dom.js";
import { asWav, formatOf, record, wavOf } from "./sound.js";

const KINDS = { image: "picture", audio: "sound" };
const USUAL_RATE = 16000;

export class InputForm {
  /** description: a ModelDescription. onrun: called when a person wants an answer. onproblem(error): a bad file. */
  constructor(root, description, onrun, onproblem) {
    this.description = description;
    this.fields = (description.inputs ?? []).map((each) => new Field(each, onrun, onproblem));
    for (const each of this.fields) {
      each.rate = this.#rateOf(each.name);
      const known = (description.examples ?? []).map(({ inputs }) => inputs?.[each.name]?.document);
      if (known.some((one) => one?.sentences)) each.takeSentences();
    }
    this.onrun = onrun;
    this.example = null;
    const optional = this.fields.filter((each) => each.isOptional);
    root.replaceChildren(
      this.#examples(),
      ...this.fields.filter((each) => !each.isOptional).map((each) => each.root),
      optional.length
        ? element("details", {}, element("summary", {}, "Optional inputs"), ...optional.map((each) => each.root))
        : "",
    );
    for (const each of this.fields) each.onchange = () => this.#show(null);
  }

  /** Samples a second that an input wants: those of an example. */
  #rateOf(name) {
    const [bytes] = (this.description.examples ?? []).flatMap(({ inputs }) => bytesOf(inputs?.[name]) ?? []);
    return (bytes && formatOf(bytes)?.rate) || USUAL_RATE;
  }

  #examples() {
    this.buttons = (this.description.examples ?? []).map((_, number) =>
      element(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": "false",
          onclick: () => {
            this.takeExample(number);
            this.onrun();
          },
        },
        String(number),
      ),
    );
    return this.buttons.length ? element("div", { class: "examples" }, "Examples ", ...this.buttons) : "";
  }

  #show(example) {
    this.example = example;
    this.buttons.forEach((each, number) => each.setAttribute("aria-pressed", String(number === example)));
  }

  /** Fill the form with an example of the model. */
  takeExample(number) {
    const example = this.description.examples?.[number];
    if (!example) return;
    for (const each of this.fields) each.write(example.inputs?.[each.name]);
    this.#show(number);
  }

  /** Values by name of an input. Throws Problem for one that is missing or no JSON. */
  read() {
    const inputs = {};
    for (const each of this.fields) {
      const value = each.read();
      if (value !== null) inputs[each.name] = value;
      else if (!each.isOptional) throw new Problem(`${each.name} is empty.`);
    }
    return inputs;
  }

  /** Whether every input that is needed has a value. */
  get isFilled() {
    return this.fields.every((each) => each.isOptional || !each.isEmpty);
  }

  /** What of the inputs an address holds: the number of an example, or texts. */
  selection() {
    if (this.example !== null) return { example: this.example };
    return Object.assign({}, ...this.fields.map((each) => each.selection()));
  }

  /** Fill the form as an address says. Returns whether it said anything. */
  select(selection) {
    if (selection.example !== undefined) this.takeExample(Number(selection.example));
    const filled = this.fields.map((each) => each.select(selection));
    return filled.some(Boolean) || this.example !== null;
  }
}

class Field {
  constructor(info, onrun, onproblem) {
    this.name = info.name;
    this.onproblem = onproblem;
    this.kind = info.kind.replace("INPUT_KIND_", "").toLowerCase();
    this.isOptional = Boolean(info.optional);
    this.dataType = info.tensors?.[0]?.dataType;
    this.onchange = () => {};
    this.file = null;
    const label = element("label", { title: info.summary }, element("span", { class: "name" }, info.name));
    this.areas = [];
    if (this.kind in KINDS) label.append(this.#dropZone());
    else {
      const parts = this.kind === "pair" ? ["first", "second"] : [""];
      this.areas = parts.map((part) => this.#area(part, onrun));
      label.append(...this.areas);
    }
    this.root = element("div", { class: "field" }, label);
  }

  /** Send a document as the model's examples have it: as sentences, a line each. */
  takeSentences() {
    this.isOfSentences = true;
    this.areas[0].before(element("span", { class: "hint" }, " One sentence a line."));
  }

  #area(part, onrun) {
    const rows = { text: 2, pair: 2, document: 7, graph: 6, tensor: 4 }[this.kind] ?? 2;
    return element("textarea", {
      rows,
      spellcheck: "false",
      "aria-label": part ? `${this.name}, ${part} text` : this.name,
      oninput: () => this.onchange(),
      onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          onrun();
        }
      },
    });
  }

  #dropZone() {
    this.preview = element("div", { class: "preview" });
    const accept = this.kind === "image" ? "image/*" : "audio/*";
    const picker = element("input", {
      type: "file",
      accept,
      onchange: () => picker.files[0] && this.#takeFile(picker.files[0]),
    });
    const zone = element(
      "div",
      { class: "drop" },
      this.preview,
      element("span", { class: "hint" }, `Drop a ${KINDS[this.kind]} here, or choose one: `),
      picker,
      this.kind === "audio" && navigator.mediaDevices ? this.#microphone() : "",
    );
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      if (event.dataTransfer.files[0]) this.#takeFile(event.dataTransfer.files[0]);
    });
    return zone;
  }

  #microphone() {
    let stop = null;
    const button = element("button", { type: "button", class: "chip" }, "Record");
    button.onclick = async () => {
      try {
        if (stop) await this.#take(await stop());
        stop = stop ? null : await record();
      } catch (error) {
        stop = null;
        this.onproblem(error);
      }
      button.textContent = stop ? "Stop" : "Record";
    };
    return button;
  }

  async #takeFile(file) {
    await this.#take(new Uint8Array(await file.arrayBuffer())).catch(this.onproblem);
  }

  async #take(bytes) {
    this.#setBytes(this.kind === "audio" ? await asWav(bytes, this.rate) : bytes);
    this.onchange();
  }

  #setBytes(bytes) {
    this.file = bytes;
    this.preview.replaceChildren();
    if (!bytes) return;
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = URL.createObjectURL(new Blob([bytes]));
    if (this.kind === "image")
      this.preview.append(element("img", { src: this.url, alt: `The picture for ${this.name}` }));
    else this.preview.append(element("audio", { src: this.url, controls: true }));
  }

  write(value) {
    if (this.kind in KINDS) this.#setBytes(bytesOf(value));
    else if (this.kind === "pair")
      this.areas.forEach((area, place) => {
        area.value = value?.pair?.[place ? "second" : "first"] ?? "";
      });
    else this.areas[0].value = textOf(this.kind, value);
  }

  read() {
    if (this.kind in KINDS) {
      if (!this.file) return null;
      const data = base64(this.file);
      return this.kind === "image" ? { image: data } : { audio: { wav: data } };
    }
    const [first, second] = this.areas.map((each) => each.value);
    if (this.kind === "pair") return first || second ? { pair: { first, second } } : null;
    if (!first) return null;
    switch (this.kind) {
      case "text":
        return { text: first };
      case "document":
        return { document: this.isOfSentences ? { sentences: { texts: linesOf(first) } } : { text: first } };
      case "tensor":
        return { tensor: tensorOf(this.dataType, parsed(this.name, first)) };
      default:
        return { [this.kind]: parsed(this.name, first) };
    }
  }

  get isEmpty() {
    return this.kind in KINDS ? !this.file : this.areas.every((each) => !each.value);
  }

  selection() {
    if (this.kind in KINDS) return {};
    return Object.fromEntries(this.areas.map((each, place) => [`in.${this.name}${place ? ".2" : ""}`, each.value]));
  }

  select(selection) {
    let found = false;
    this.areas.forEach((area, place) => {
      const value = selection[`in.${this.name}${place ? ".2" : ""}`];
      if (value !== undefined) {
        area.value = value;
        found = true;
      }
    });
    return found;
  }
}

/** The sentences of a document for a model that takes them apart from each other: its lines. */
function linesOf(text) {
  return text.split("\n").filter((each) => each.trim());
}

function parsed(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem(`${name} is not JSON: ${error.message}`);
  }
}

/** A value of an example as the form shows it. */
function textOf(kind, value) {
  if (!value) return "";
  if (kind === "text") return value.text ?? "";
  if (kind === "document")
    return value.document?.text ?? value.text ?? (value.document?.sentences?.texts ?? []).join("\n");
  if (kind === "tensor" && isWhole(value.tensor)) return JSON.stringify(nested(value.tensor));
  return JSON.stringify(value[kind] ?? value, (_, each) => plain(each));
}

/** A tensor as the protocol's JSON has it, of nested lists of numbers, or as somebody has written it out. */
function tensorOf(dataType, written) {
  if (Array.isArray(written)) return { dataType, data: written };
  return typeof written === "number" ? { dataType, shape: [], data: [written] } : written;
}

/** Whether a tensor has as many numbers as its shape says, and any. */
function isWhole(tensor) {
  const count = tensor?.values?.length;
  return count > 0 && tensor.shape.reduce((product, size) => product * Number(size), 1) === count;
}

/** Numbers of a tensor in nested lists. */
function nested({ shape, values }) {
  const inside = shape.slice(1).map(Number).reverse();
  const lists = inside.reduce(
    (flat, size) => Array.from({ length: flat.length / size }, (_, row) => flat.slice(row * size, (row + 1) * size)),
    numbersOf(values),
  );
  return shape.length ? lists : lists[0];
}

/** Numbers, of float32 with as few digits as tell them from all others. */
function numbersOf(values) {
  if (!(values instanceof Float32Array)) return Array.from(values, Number);
  const short = (value, digits) => Number(value.toPrecision(digits));
  return Array.from(values, (value) =>
    short(value, [6, 7, 8, 9].find((digits) => Math.fround(short(value, digits)) === value) ?? 9),
  );
}

/** Tensors as the protocol's JSON has them: numbers in place of a typed array. */
function plain(value) {
  if (!value?.dataType) return value;
  const { dataType, shape, values } = value;
  return { dataType, shape: shape.map(Number), data: numbersOf(values) };
}

/** The bytes of a picture or a sound; null for neither. */
export function bytesOf(value) {
  const { samples, sampleRate } = value?.audio?.samples ?? {};
  if (samples) return wavOf(samples.values, sampleRate);
  const text = value?.image ?? value?.audio?.wav;
  return text ? Uint8Array.from(atob(text), (each) => each.charCodeAt(0)) : null;
}

function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 32768)
    text += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(text);
}
