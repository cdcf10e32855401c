// One model, one input and its answer: the form, the results, and the maps.

import { entriesOf, headline, objectsOf, ofSequence, originOf, resultsOf } from "./answer.js";
import { readAxes, sourcesOf } from "./axes.js";
import { Problem, told } from "./client.js";
import { answerTable } from "./compare.js";
import { element, options } from "./dom.js";
import { Explorer } from "./explorer.js";
import { bytesOf, InputForm } from "./inputs.js";
import { KeptHead } from "./kepthead.js";
import { Head, levelAbove, readMap } from "./maps.js";
import { makePanel } from "./panels.js";
import { aboutRow } from "./row.js";
import { Scale } from "./scale.js";
import { Why } from "./why.js";

const THUMBNAIL_SIZE = 64;
// Weights of one answer: all heads of a map up to this, else the open head alone, and as bytes.
const MOST_WEIGHTS = 2 ** 20;
// A head of more weights is kept by the page's server, and read in windows.
const MOST_OF_A_HEAD = 2 ** 22;
const HYPOTHESES = 3;
const STRATEGIES = { "": "the most probable", STRATEGY_SAMPLE: "sampled", STRATEGY_BEAM: "of beam search" };

export class Pane {
  /** onchange: called when the selection or the open head has changed. */
  constructor(client, models, onchange) {
    Object.assign(this, { client, models, onchange });
    const copy = document.getElementById("pane").content.cloneNode(true);
    const part = (this.part = Object.fromEntries(
      [...copy.querySelectorAll("[data-part]")].map((each) => [each.dataset.part, each]),
    ));
    this.root = part.root;
    options(
      part.model,
      models.map((each) => [modelKey(each), nameOf(each)]),
    );
    options(part.strategy, Object.entries(STRATEGIES));
    part.model.onchange = () => this.select({ ...this.#display(), model: part.model.value });
    part.strategy.onchange = () => this.run();
    part.form.onsubmit = (event) => {
      event.preventDefault();
      this.run();
    };
    this.explorer = new Explorer(
      () => this.onchange(),
      (error) => this.#fail(error),
    );
    part.explorer.replaceWith(this.explorer.root);
    this.why = new Why({
      prepare: () => this.#isAnswered() || this.run(),
      explain: (asked, signal) => this.#explain(asked, signal),
      onchange: () => this.onchange(),
      onpoint: (axis, unit) => this.explorer.point(axis, unit),
    });
    part.why.replaceWith(this.why.root);
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.explorer.unpin());
  }

  /** Take a selection, as an address has it, and run it. */
  async select(selection) {
    this.explorer.select(selection);
    this.#clear();
    this.form = undefined;
    this.part.fields.replaceChildren();
    this.part.row.replaceChildren();
    try {
      const status = selection.model
        ? this.models.find((each) => modelKey(each) === selection.model)
        : firstOf(this.models.filter(isReady));
      if (!status)
        throw new Problem(
          selection.model ? `This server has no model ${selection.model}.` : "This server has no model that is ready.",
        );
      this.part.model.value = modelKey(status);
      this.#tellAbout({ inputs: [] });
      if (!isReady(status))
        throw new Problem(
          status.reason ? `This model failed to load: ${status.reason}` : "This model is still loading.",
        );
      this.chosen = status.model;
      const { description } = await this.client.describe(status.model);
      if (this.chosen !== status.model) return;
      this.description = { maps: [], inputs: [], labelSets: [], results: [], ...description };
      if (this.client.keep) this.description.maps = [...this.description.maps, ...rolloutsOf(this.description.maps)];
      this.masked = selection.mask ? selection.mask.split(",") : [];
      this.#tellAbout(this.description);
      this.part.row.replaceChildren(...aboutRow(this.description));
      this.why.describe(this.description, !this.client.keep);
      this.why.select(selection);
      this.form = new InputForm(
        this.part.fields,
        this.description,
        () => this.run(),
        (error) => this.#fail(error),
      );
      this.part.decoding.hidden = !this.#generates;
      this.part.strategy.value = selection.strategy ?? "";
      this.seed = selection.seed;
      this.sequence = Number(selection.text ?? 0);
      if (!this.form.select(selection)) this.form.takeExample(0);
      if (this.form.isFilled) await this.run(true);
    } catch (error) {
      this.#fail(error);
    }
    this.onchange();
  }

  /** Tell what a model does, and what each of its inputs should be. */
  #tellAbout({ summary, inputs }) {
    const { about } = this.part;
    const told = [["", summary], ...inputs.map((each) => [`${each.name}: `, each.summary])].filter(([, text]) => text);
    about.querySelectorAll("p").forEach((each) => each.remove());
    about.append(...told.map(([name, text]) => element("p", { class: "hint" }, element("b", {}, name), text)));
    about.hidden = !told.length;
  }

  get #generates() {
    return this.description.results.some((each) => each.sequence);
  }

  /** The selection, as an address holds it. */
  selection() {
    const strategy = this.part.strategy.value;
    return {
      model: this.part.model.value,
      ...this.form?.selection(),
      ...(strategy && { strategy, seed: this.seed, text: this.sequence || undefined }),
      mask: this.masked?.join(","),
      ...this.why.selection(),
      ...this.explorer.selection(),
    };
  }

  /** What of the selection holds for another model as well. */
  #display() {
    const { joined, special, log, sort } = this.selection();
    return { joined, special, log, sort };
  }

  /** Forget the answer and whatever is shown of it. */
  #clear() {
    this.controller?.abort();
    this.explorer.clear();
    this.why.clear();
    this.why.root.hidden = true;
    this.shown = null;
    this.#hide();
    this.#forgive();
  }

  #forgive() {
    this.part.problem.hidden = true;
    this.part.problem.replaceChildren();
  }

  /** Go back to the answer that is shown after a call that failed; nothing where there is none. */
  #goBack() {
    if (!this.shown) return this.#hide();
    const { results, origin, ...state } = this.shown;
    Object.assign(this, state);
    this.part.results.replaceChildren(...results);
    this.part.origin.textContent = origin;
    this.part.problem.append(element("div", { class: "hint" }, "Below is the last answer."));
  }

  #hide() {
    for (const each of [this.part.results, this.part.origin]) each.replaceChildren();
  }

  /** Whether an answer is under way: what is shown is of the one before, and takes no clicks. */
  #setBusy(isBusy) {
    this.root.setAttribute("aria-busy", String(isBusy));
    this.part.shown.inert = isBusy;
  }

  /** Tell of a problem beside the answer, which stays. */
  tell(problem) {
    this.#fail(problem);
  }

  /** Tell of an error; beside those that are told already. */
  #fail(error) {
    if (error.name === "AbortError") return;
    this.part.problem.append(element("div", {}, told(error)));
    this.part.problem.hidden = false;
  }

  /** Answer the form's input; gives whether that is shown. isSelected: as an address has it, with its map and its seed. */
  async run(isSelected = false) {
    this.controller?.abort();
    this.#forgive();
    this.controller = new AbortController();
    const { signal } = this.controller;
    const { part, description } = this;
    let isShown = false;
    this.#setBusy(true);
    try {
      const inputs = this.form.read();
      const strategy = this.#generates && part.strategy.value;
      const generation = strategy
        ? { strategy, ...(strategy === "STRATEGY_BEAM" && { hypotheses: HYPOTHESES }) }
        : undefined;
      if (!isSelected) this.sequence = 0;
      // All calls for one answer have one seed.
      if (strategy !== "STRATEGY_SAMPLE") this.seed = undefined;
      else if (!isSelected || !this.seed) [this.seed] = crypto.getRandomValues(new Uint32Array(1));
      const instance = { inputs, seed: this.seed, interventions: interventionsOf(this.masked) };
      Object.assign(this, {
        inputs,
        sources: sourcesOf(inputs),
        request: { instances: [instance], generation },
        loaded: new Map(),
        example: this.form.example,
      });
      if (this.#generates && strategy !== "STRATEGY_BEAM") {
        await this.#unlessRefused(this.#stream(instance, generation, signal));
      }
      const { maps } = description;
      const encoding = maps.some((each) => each.signed) ? "ENCODING_FLOAT32" : "ENCODING_UINT8";
      this.answer = maps.length
        ? await this.#attend({ pool: { size: THUMBNAIL_SIZE, reduction: "POOL_REDUCTION_MEAN" }, encoding }, signal).catch(
            (error) => this.#withoutMaps(error, signal),
          )
        : await this.client.predict(this.chosen, this.request, signal, this.example);
      const withAllHeads = { ...this.request, instances: [{ inputs, seed: this.seed }] };
      this.unmasked = this.masked.length
        ? await this.#unlessRefused(this.client.predict(this.chosen, withAllHeads, signal))
        : null;
      part.origin.textContent =
        originOf(this.answer.prediction) + (maps.length ? "" : ". This model has no attention maps.") +
        (this.answer.isWithoutThumbnails ? ". The text is too long for pictures of all heads: choose one under Head." : "");
      this.picture = await pictureOf(inputs);
      signal.throwIfAborted();
      await this.#showAnswer(isSelected);
      this.#keepShown();
      isShown = true;
    } catch (error) {
      this.#fail(error);
      if (this.controller.signal === signal) this.#goBack();
    }
    if (this.controller.signal === signal) this.#setBusy(false);
    this.onchange();
    return isShown;
  }

  /** What a call gives; null where it is refused: a token may have the right to Attend alone, which tells the rest. */
  async #unlessRefused(call) {
    return call.catch((error) => {
      if (!(error instanceof Problem)) throw error;
      return null;
    });
  }

  /** Remember the answer that is shown, for a call that fails. */
  #keepShown() {
    const names = ["inputs", "sources", "request", "loaded", "example", "answer", "unmasked", "masked", "picture"];
    const state = [...names, "seed", "sequence", "axes"].map((name) => [name, this[name]]);
    const { results, origin } = this.part;
    this.shown = { ...Object.fromEntries(state), results: [...results.childNodes], origin: origin.textContent };
  }

  /** The answer to a text whose maps, all heads of them, are more than the server computes at once. */
  async #withoutMaps(error, signal) {
    if (error.status !== 413 || !this.client.keep) throw error;
    const { maps, ...answer } = await this.#attend({ selections: [{ queries: [0] }] }, signal);
    return { ...answer, maps: [], isWithoutThumbnails: maps.length > 0 };
  }

  /** Show the answer that is here, with the maps of the text that is chosen. keeps: what is pinned stays so. */
  async #showAnswer(keeps) {
    const { description, picture } = this;
    const { prediction, maps } = ofSequence(this.answer, this.sequence);
    const axes = (this.axes = readAxes(prediction.labelSets, this.sources));
    const choose = (text) => {
      this.sequence = text;
      this.loaded.clear();
      this.#showAnswer(false).then(
        () => this.#keepShown(),
        (error) => this.#fail(error),
      );
    };
    this.part.results.replaceChildren(...resultsOf(prediction, axes, this.sequence, choose), ...this.#maskedNote());
    this.why.offer(entriesOf(prediction, description, axes), this.sources);
    if (!description.maps.length) return;
    const thumbnails = this.#readable(maps);
    const load = (info, index, quantity) => this.#load(info, index, quantity, this.controller.signal);
    const objects = objectsOf(prediction);
    const masks = this.client.keep && {
      has: (name, head) => this.masked.includes(`${name}:${head}`),
      toggle: (name, head) => this.#mask(`${name}:${head}`),
    };
    await this.explorer.show({ description, thumbnails, axes, picture, objects, load, masks }, keeps);
  }

  /** Explain the answer that is shown: what Explained shows. asked: fields of an ExplainRequest. */
  async #explain(asked, signal) {
    const { sequences } = (this.answer.prediction.results ?? []).find((each) => each.sequences)?.sequences ?? {};
    const target = { text: this.sequence ? sequences?.[this.sequence]?.text : undefined, ...asked.target };
    const request = { ...this.request, ...asked, target };
    const explanation = await this.client.explain(this.chosen, request, signal, this.example);
    return [explanation, this.sources, this.picture, edgesOf(this.inputs)];
  }

  /** Whether the answer that is shown is that of what the form has. */
  #isAnswered() {
    try {
      return Boolean(this.shown) && JSON.stringify(this.form.read()) === JSON.stringify(this.inputs);
    } catch {
      return false; // something is missing, as an answer tells
    }
  }

  /** Answer without a head, or with it again. */
  #mask(head) {
    const isMasked = this.masked.includes(head);
    this.masked = isMasked ? this.masked.filter((each) => each !== head) : [...this.masked, head];
    this.run(true).then(() => this.explorer.part.mask.focus());
  }

  /** Tell which heads are masked, and what that changes. */
  #maskedNote() {
    if (!this.unmasked) return [];
    const all = () => {
      this.masked = [];
      this.run(true);
    };
    const answers = [
      { prediction: this.answer.prediction, sequence: this.sequence },
      { prediction: this.unmasked.prediction, sequence: 0 },
    ];
    const button = element("button", { type: "button", class: "chip", onclick: all }, "Use all heads");
    const heads = this.masked.map((each) => each.replace(/:(\d+)$/, " head $1")).join(", ");
    return [
      element(
        "div",
        { class: "masks" },
        element("p", {}, `Answered without ${heads}. `, button),
        answerTable(["without", "with all heads"], answers),
      ),
    ];
  }

  async #attend(attention, signal) {
    const sequences = this.request.generation?.hypotheses;
    const request = { ...this.request, attention: { ...attention, sequences } };
    return this.client.attend(this.chosen, request, signal, this.example);
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

  /** Load a whole map, or its open head where it is large, and the weights of the level above. quantity: "" weights. */
  async #load(info, index, quantity, signal) {
    const size = (name) => this.axes.get(name)?.size ?? 1;
    const isLarge = size(info.queryLabels) * size(info.keyLabels) * (info.heads ?? 1) > MOST_WEIGHTS;
    const key = [info.name, quantity, isLarge && index].join(" ");
    const isKept =
      size(info.queryLabels) * size(info.keyLabels) > MOST_OF_A_HEAD &&
      !(quantity || info.signed || info.features || info.rollout || info.form === "MAP_FORM_EDGES") &&
      this.client.keep;
    if (isKept && !this.loaded.has(key)) this.loaded.set(key, await this.#keep(info, index, signal));
    if (!this.loaded.has(key)) {
      const above = levelAbove(this.description, info);
      const { sequence } = this;
      const whole = await this.#attend(
        {
          selections: [
            { names: info.rollout ?? [info.name], heads: isLarge && index !== null ? [index] : [] },
            ...(above ? [{ names: [above.name] }] : []),
          ],
          quantity: quantity || undefined,
          encoding: isLarge && !info.signed && !quantity ? "ENCODING_UINT8" : "ENCODING_FLOAT32",
          reduceHeads: info.rollout || (isLarge && index === null) ? "HEAD_REDUCTION_MEAN" : undefined,
          rollout: Boolean(info.rollout),
        },
        signal,
      );
      const answer = ofSequence(whole, sequence);
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

  /** Open a head of a long text. */
  async #keep(info, index, signal) {
    const [query, key] = [info.queryLabels, info.keyLabels].map((name) => this.axes.get(name));
    const [rows, columns] = [query.size, key.size];
    this.part.origin.dataset.waiting = `Fetching a head of ${rows} × ${columns} weights …`;
    try {
      const attention = {
        selections: [{ names: [info.name], heads: index === null ? [] : [index] }],
        reduceHeads: index === null ? "HEAD_REDUCTION_MEAN" : undefined,
        encoding: "ENCODING_UINT8",
      };
      const { name, largest } = await this.client.keep(this.chosen, { ...this.request, attention }, signal);
      const window = (...wanted) => this.client.window(name, ...wanted);
      const map = {
        name: info.name,
        heads: [index ?? 0],
        isMean: index === null,
        total: info.heads ?? 1,
        query,
        key,
        rows,
        columns,
        signed: false,
        headNames: info.headLabels ? this.axes.get(info.headLabels)?.texts : undefined,
        isNested: false,
        isShare: Boolean(info.normalised),
        equal: info.normalised ? 1 / columns : null,
      };
      return { map, levels: null, kept: await new KeptHead(map, index, largest, window).open(signal) };
    } finally {
      delete this.part.origin.dataset.waiting;
    }
  }

  /** The explanation that is shown; null for none. */
  get explanation() {
    return this.why.root.open ? this.why.explained.explanation : null;
  }

  get head() {
    return this.explorer.head;
  }

  repaint() {
    this.why.repaint();
    this.explorer.repaint();
  }

  get title() {
    return `${this.chosen.name}: ${headline(this.answer.prediction)}`;
  }
}

/** A map for the rollout of each stack of self-attention, which the server makes of the layers: their names. */
function rolloutsOf(maps) {
  const isSquare = ({ queryLabels, keyLabels, signed, features, form }) =>
    queryLabels === keyLabels && !signed && !features && form !== "MAP_FORM_EDGES";
  const layers = maps.filter(({ kind }) => kind === "MAP_KIND_SELF");
  return [...new Set(layers.map(({ stack }) => stack))].flatMap((stack) => {
    const own = layers.filter((each) => each.stack === stack);
    const { queryLabels } = own[0];
    if (own.length < 2 || !own.every((each) => isSquare(each) && each.queryLabels === queryLabels)) return [];
    const name = stack ? `${stack}.rollout` : "rollout";
    const summary =
      "Attention rollout (Abnar and Zuidema 2020): the product over the layers of half the mean of the heads and half " +
      "the identity: how weight could pass from the input to the last layer.";
    const axes = { queryLabels, keyLabels: queryLabels, normalised: true, heads: 1 };
    return [{ name, stack, kind: "MAP_KIND_SELF", ...axes, summary, rollout: own.map((each) => each.name) }];
  });
}

/** Changes of an instance that leave heads out: `map:head` each. */
function interventionsOf(masked) {
  const names = [...new Set(masked.map((each) => each.replace(/:\d+$/, "")))];
  return names.map((map) => {
    const heads = masked.filter((each) => each.startsWith(`${map}:`)).map((each) => Number(each.slice(map.length + 1)));
    const headScales = { dataType: "DATA_TYPE_FLOAT32", shape: [heads.length], data: heads.map(() => 0) };
    return { map, headScales, heads };
  });
}

/** The model that opens: one that writes, since what each part of its answer comes from is seen at once. */
function firstOf(models) {
  return models.find(({ task }) => task === "TASK_GENERATION") ?? models[0];
}

function isReady({ state }) {
  return state === "MODEL_STATE_READY";
}

function stateOf({ state }) {
  return state.replace("MODEL_STATE_", "").toLowerCase();
}

/** A version with its title, where that says more; or with its state. */
function nameOf(status) {
  const more = isReady(status) ? status.title : stateOf(status);
  return more && more !== status.model.name ? `${modelKey(status)} – ${more}` : modelKey(status);
}

/** The name of a version in an address: the default version has the name of the model alone. */
function modelKey({ model, isDefault }) {
  return isDefault ? model.name : `${model.name}@${model.version ?? 0}`;
}

/** Edges of the graph of an instance: [node, one that it attends to] each. */
function edgesOf(inputs) {
  const { graph } = Object.values(inputs).find((each) => each.graph) ?? {};
  const ends = [graph?.edges?.data ?? []].flat(Infinity).map(Number);
  return ends.slice(ends.length / 2).map((target, place) => [target, ends[place]]);
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
