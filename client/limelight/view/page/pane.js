// One model, one input and its answer: the form, the results, the heads and the open head.

import { headline, originOf, resultsOf } from "./answer.js";
import { readAxes, sourcesOf } from "./axes.js";
import { Problem } from "./client.js";
import { element, options } from "./dom.js";
import { HeadView } from "./headview.js";
import { bytesOf, InputForm } from "./inputs.js";
import { Head, readMap } from "./maps.js";
import { makePanel } from "./panels.js";
import { Scale } from "./scale.js";
import { SORTS, Thumbnails } from "./thumbnails.js";

const THUMBNAIL_SIZE = 64;
// Weights of one answer: all heads of a map up to this, else the open head alone, and as bytes.
const MOST_WEIGHTS = 2 ** 20;
const HYPOTHESES = 3;
const STRATEGIES = { "": "the most probable", STRATEGY_SAMPLE: "sampled", STRATEGY_BEAM: "of beam search" };
const FLAGS = { joined: "whole words", special: "special tokens", log: "log scale" };

export class Pane {
  /** onchange: called when the selection or the open head has changed. */
  constructor(client, models, onchange) {
    Object.assign(this, { client, models, onchange, state: {}, head: null });
    const copy = document.getElementById("pane").content.cloneNode(true);
    const part = (this.part = Object.fromEntries(
      [...copy.querySelectorAll("[data-part]")].map((each) => [each.dataset.part, each]),
    ));
    this.root = part.root;
    options(
      part.model,
      models.map((each) => [
        modelKey(each),
        `${modelKey(each)} – ${isReady(each) ? (each.title ?? "") : stateOf(each)}`,
      ]),
    );
    options(part.strategy, Object.entries(STRATEGIES));
    part.model.onchange = () => this.select({ ...this.#display(), model: part.model.value });
    part.strategy.onchange = () => this.run();
    part.form.onsubmit = (event) => {
      event.preventDefault();
      this.run();
    };
    part.map.onchange = () => this.open(part.map.value, null);
    part.head.onchange = () => this.open(this.state.map, part.head.value === "" ? null : Number(part.head.value));
    part.sort.onchange = () => {
      this.#change({ sort: part.sort.value });
      this.#showThumbnails();
    };
    this.flags = Object.fromEntries(
      Object.entries(FLAGS).map(([name, text]) => {
        const box = element("input", {
          type: "checkbox",
          onchange: () => {
            this.#change({ [name]: box.checked });
            this.repaint();
          },
        });
        part.flags.append(element("label", { class: "toggle" }, box, ` ${text}`));
        return [name, box];
      }),
    );
    this.view = new HeadView(part.view, (change) => this.#change(change));
    this.thumbnails = new Thumbnails(part.thumbnails, (map, index) => this.open(map, index));
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.head && this.view.unpin());
  }

  /** Take a selection, as an address has it, and run it. */
  async select(selection) {
    const number = (name) => ((selection[name] ?? "") === "" ? null : Number(selection[name]));
    this.state = {
      map: selection.map,
      head: number("head"),
      sort: selection.sort ?? "",
      q: number("q"),
      k: number("k"),
      joined: selection.joined !== "0",
      special: selection.special !== "0",
      log: selection.log === "1",
      window: selection.window?.split("-").map(Number) ?? null,
    };
    this.#clear();
    this.form = undefined;
    this.part.fields.replaceChildren();
    try {
      const status = this.models.find((each) => (selection.model ? modelKey(each) === selection.model : isReady(each)));
      if (!status)
        throw new Problem(
          selection.model ? `This server has no model ${selection.model}.` : "This server has no model that is ready.",
        );
      this.part.model.value = modelKey(status);
      this.part.about.textContent = "";
      if (!isReady(status))
        throw new Problem(
          status.reason ? `This model failed to load: ${status.reason}` : "This model is still loading.",
        );
      this.chosen = status.model;
      const { description } = await this.client.describe(status.model);
      if (this.chosen !== status.model) return;
      this.description = { maps: [], inputs: [], labelSets: [], results: [], ...description };
      this.part.about.textContent = description.summary ?? "";
      this.form = new InputForm(this.part.fields, this.description, () => this.run());
      this.part.decoding.hidden = !this.#generates;
      this.part.strategy.value = selection.strategy ?? "";
      this.seed = selection.seed;
      if (!this.form.select(selection)) this.form.takeExample(0);
      if (this.form.isFilled) await this.run(true);
    } catch (error) {
      this.#fail(error);
    }
    this.onchange();
  }

  get #generates() {
    return this.description.results.some((each) => each.sequence);
  }

  /** The selection, as an address holds it. */
  selection() {
    const { joined, special, log, window, ...others } = this.state;
    const strategy = this.part.strategy.value;
    return {
      model: this.part.model.value,
      ...this.form?.selection(),
      ...(strategy && { strategy, seed: this.seed }),
      ...others,
      joined: joined ? "" : "0",
      special: special ? "" : "0",
      log: log ? "1" : "",
      window: window?.join("-"),
    };
  }

  /** What of the selection holds for another model as well. */
  #display() {
    const { joined, special, log, sort } = this.selection();
    return { joined, special, log, sort };
  }

  #change(change) {
    Object.assign(this.state, change);
    this.onchange();
  }

  #clear() {
    this.controller?.abort();
    this.head = null;
    const { part } = this;
    part.problem.hidden = part.maps.hidden = part.heads.hidden = true;
    for (const each of [part.results, part.origin, part.problem]) each.replaceChildren();
  }

  /** Tell of an error; beside those that are told already. */
  #fail(error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) console.error(error);
    const text = error instanceof Problem ? error.message : `The page could not show this: ${error.message}`;
    this.part.problem.append(element("div", {}, text));
    this.part.problem.hidden = false;
  }

  /** Answer the form's input. isSelected: as an address has it, with its map and its seed. */
  async run(isSelected = false) {
    this.#clear();
    this.controller = new AbortController();
    const { signal } = this.controller;
    const { part, description } = this;
    this.root.setAttribute("aria-busy", "true");
    try {
      const inputs = this.form.read();
      const strategy = this.#generates && part.strategy.value;
      const generation = strategy
        ? { strategy, ...(strategy === "STRATEGY_BEAM" && { hypotheses: HYPOTHESES }) }
        : undefined;
      // All calls for one answer have one seed.
      if (strategy !== "STRATEGY_SAMPLE") this.seed = undefined;
      else if (!isSelected || !this.seed) [this.seed] = crypto.getRandomValues(new Uint32Array(1));
      const instance = { inputs, seed: this.seed };
      Object.assign(this, {
        inputs,
        sources: sourcesOf(inputs),
        request: { instances: [instance], generation },
        loaded: new Map(),
      });
      if (this.#generates && strategy !== "STRATEGY_BEAM") {
        await this.#stream(instance, generation, signal).catch((error) => {
          if (!(error instanceof Problem)) throw error; // a token may have the right to Attend alone, which tells the rest
        });
      }
      const { maps } = description;
      const encoding = maps.some((each) => each.signed) ? "ENCODING_FLOAT32" : "ENCODING_UINT8";
      this.answer = maps.length
        ? await this.#attend({ pool: { size: THUMBNAIL_SIZE, reduction: "POOL_REDUCTION_MEAN" }, encoding }, signal)
        : await this.client.predict(this.chosen, this.request, signal, this.form.example);
      this.axes = readAxes(this.answer.prediction.labelSets, this.sources);
      part.results.replaceChildren(...resultsOf(this.answer.prediction, this.axes));
      part.origin.textContent =
        originOf(this.answer.prediction) + (maps.length ? "" : ". This model has no attention maps.");
      this.picture = await pictureOf(inputs);
      signal.throwIfAborted();
      if (maps.length) {
        this.thumbnailMaps = this.#readable(this.answer.maps);
        part.heads.hidden = !this.thumbnailMaps.length;
        this.#showThumbnails();
        options(
          part.map,
          maps.map(({ name }) => [name, name]),
        );
        const isKnown = maps.some(({ name }) => name === this.state.map);
        await this.open(isKnown ? this.state.map : natural(description), isKnown ? this.state.head : null, isSelected);
      }
    } catch (error) {
      this.#fail(error);
    }
    if (this.controller.signal === signal) this.root.removeAttribute("aria-busy");
    this.onchange();
  }

  #attend(attention, signal) {
    return this.client.attend(this.chosen, { ...this.request, attention }, signal, this.form.example);
  }

  /** Read maps; one that cannot be drawn is told and left out. */
  #readable(messages) {
    return messages.flatMap((each) => {
      try {
        return [readMap(each, this.axes)];
      } catch (error) {
        this.#fail(error);
        return [];
      }
    });
  }

  /** Show tokens as they are generated, and what each looks at. */
  async #stream(instance, generation, signal) {
    const cross = this.description.maps.findLast((each) => each.kind === "MAP_KIND_CROSS");
    const attention = cross && { selections: [{ names: [cross.name] }], reduceHeads: "HEAD_REDUCTION_MEAN" };
    const text = element("p", { class: "headline" });
    this.part.results.replaceChildren(text);
    let axes;
    let panel;
    for await (const [event, message] of this.client.generate(
      this.chosen,
      { instance, generation, attention },
      signal,
    )) {
      if (event === "start") axes = readAxes(message.labelSets, this.sources);
      else if (event === "token") {
        text.append(message.delta ?? "");
        const map = message.maps?.[0];
        const axis = axes.get(map?.keyLabels);
        if (axis?.size !== map?.weights.values.length || !axis) continue;
        if (!panel) {
          panel = makePanel(
            axis,
            axis.units({ joined: false, special: true }),
            axis.name,
            await pictureOf(this.inputs),
          );
          this.part.results.append(panel.root);
        }
        const largest = map.weights.values.reduce((most, each) => Math.max(most, each), 0);
        const equal = map.normalised ? 1 / axis.size : null;
        panel.paint(map.weights.values, new Scale({ largest, signed: false, equal, log: false }), null);
      }
    }
  }

  #showThumbnails() {
    const { part, state } = this;
    const [can, sort] = this.thumbnails.show(this.thumbnailMaps, this.axes, state);
    options(
      part.sort,
      can.map((name) => [name, SORTS[name].title]),
    );
    part.sort.value = sort;
    part.sorted.textContent = SORTS[sort].about ?? "";
  }

  /** Open a head of a map, or the mean of its heads (null). keeps: what is pinned stays so. */
  async open(name, head, keeps = false) {
    const info = this.description.maps.find((each) => each.name === name);
    const count = info.heads ?? 1;
    const index = count > 1 && head !== null && head < count ? head : null;
    Object.assign(this.state, { map: name, head: index, ...(!keeps && { q: null, k: null, window: null }) });
    const {
      part,
      controller: { signal },
    } = this;
    try {
      const { map, levels } = await this.#load(info, index, signal);
      if (signal.aborted || this.state.map !== name || this.state.head !== index) return;
      const names = Array.from({ length: count }, (_, each) => [
        count > 1 ? each : "",
        map.headNames?.[each] ?? `head ${each}`,
      ]);
      options(part.head, [...(count > 1 ? [["", `mean of ${count} heads`]] : []), ...names]);
      part.head.value = index ?? "";
      part.head.disabled = count === 1;
      part.map.value = name;
      part.summary.textContent = info.summary ?? "";
      this.levels = levels;
      this.head = new Head(map, map.heads.length === 1 ? 0 : index);
      part.maps.hidden = false;
      this.thumbnails.choose(name, index);
      this.#showHead();
    } catch (error) {
      this.#fail(error);
    }
    this.onchange();
  }

  /** Load a whole map, or its open head where it is large, and the weights of the level above. */
  async #load(info, index, signal) {
    const size = (name) => this.axes.get(name)?.size ?? 1;
    const isLarge = size(info.queryLabels) * size(info.keyLabels) * (info.heads ?? 1) > MOST_WEIGHTS;
    const key = isLarge ? `${info.name} ${index}` : info.name;
    if (!this.loaded.has(key)) {
      const isAbove = (each) => each.keyLabels === info.queryLabels && each !== info;
      const above = isNested(this.description, info) ? this.description.maps.find(isAbove) : undefined;
      const answer = await this.#attend(
        {
          selections: [
            { names: [info.name], heads: isLarge && index !== null ? [index] : [] },
            ...(above ? [{ names: [above.name] }] : []),
          ],
          encoding: isLarge && !info.signed ? "ENCODING_UINT8" : "ENCODING_FLOAT32",
          reduceHeads: isLarge && index === null ? "HEAD_REDUCTION_MEAN" : undefined,
        },
        signal,
      );
      const axes = readAxes(answer.prediction.labelSets, this.sources, this.axes);
      const [map, level] = [info, above].map(
        (each) =>
          each &&
          readMap(
            answer.maps.find(({ name }) => name === each.name),
            axes,
          ),
      );
      map.total = info.heads ?? 1;
      this.loaded.set(key, { map, levels: level?.rows === 1 ? new Head(level, null).row(0) : null });
    }
    return this.loaded.get(key);
  }

  #showHead() {
    const { map } = this.head;
    const axes = [map.query, map.key];
    const isUseful = {
      joined: axes.some((each) => each.words.length),
      special: axes.some((each) => each.special.some(Boolean)),
      log: !map.signed,
    };
    for (const [name, box] of Object.entries(this.flags)) {
      box.parentElement.hidden = !isUseful[name];
      box.checked = this.state[name];
    }
    this.view.show(this.head, this.state, this);
  }

  /** Draw again: with other options, in other colours or for another width. */
  repaint() {
    if (!this.head) return;
    this.#showThumbnails();
    this.#showHead();
  }

  get title() {
    return `${this.chosen.name}: ${headline(this.answer.prediction)}`;
  }
}

function isReady({ state }) {
  return state === "MODEL_STATE_READY";
}

function stateOf({ state }) {
  return state.replace("MODEL_STATE_", "").toLowerCase();
}

/** The name of a version in an address: the default version has the name of the model alone. */
function modelKey({ model, isDefault }) {
  return isDefault ? model.name : `${model.name}@${model.version ?? 0}`;
}

function isNested({ labelSets }, { queryLabels, keyLabels }) {
  return Boolean(queryLabels) && labelSets.find((each) => each.name === keyLabels)?.parent === queryLabels;
}

/** The map that shows most at once: the words of a document, one without queries, else one that looks across. */
function natural(description) {
  const { maps, labelSets } = description;
  const setOf = (name) => labelSets.find((each) => each.name === name);
  const pooled = maps.filter((each) => setOf(each.queryLabels)?.kind === "LABEL_KIND_ONE");
  const found =
    maps.find((each) => isNested(description, each)) ??
    pooled.findLast((each) => setOf(each.keyLabels)?.grid) ??
    pooled.at(-1);
  return (found ?? maps.findLast((each) => each.kind === "MAP_KIND_CROSS") ?? maps.at(-1)).name;
}

/** The only picture of an instance, decoded; null for none. */
async function pictureOf(inputs) {
  const images = Object.values(inputs).filter((each) => each.image);
  if (images.length !== 1) return null;
  try {
    return await createImageBitmap(new Blob([bytesOf(images[0])]));
  } catch {
    return null; // a format that the server reads and the browser does not
  }
}
