// Why: the choice of units, target and ways, and the call that explains an answer by them.

import { Problem, told } from "./client.js";
import { element, options } from "./dom.js";
import { Explained, WAYS } from "./explained.js";
import { visible } from "./panels.js";

// Kinds of units, by the kinds of label sets that they are made of.
const UNITS = {
  LABEL_KIND_TOKENS: ["WORDS", "SENTENCES", "LINES", "TOKENS"],
  LABEL_KIND_GRID: ["PATCHES"],
  LABEL_KIND_NODES: ["NODES"],
  LABEL_KIND_FRAMES: ["FRAMES"],
};
const ALL = "ALL"; // of several inputs
const USUAL = "usual"; // ways, in an address
const SIZED = { PATCHES: "Size: cells along a side of a patch", FRAMES: "Size: frames of a part" };
// What a text says of the target of a result.
const TEXTS = { sequence: "that of the answer", spans: "a part of the text", embedding: "to be similar to" };
const MOST_ENTRIES = 256; // of an answer, among which one is chosen

export class Why {
  /**
   * prepare(): promise of whether the answer is of what the form has. explain(fields of an ExplainRequest, signal):
   * promise of an Explanation. onchange(): the selection has changed. onpoint: as that of Explained.
   */
  constructor({ prepare, explain, onchange, onpoint }) {
    Object.assign(this, { prepare, explain, onchange });
    const field = (name, tag, text, attributes = {}) => {
      this[name] = element(tag, { "aria-label": text, ...attributes });
      return element("label", {}, `${text} `, this[name]);
    };
    this.explained = new Explained(onpoint);
    this.problem = element("div", { role: "alert" });
    this.chosen = element("fieldset", { class: "toolbar" });
    this.status = element("span", { class: "hint", role: "status" });
    this.form = element(
      "form",
      { class: "toolbar" },
      field("units", "select", "Units", { onchange: () => this.#show() }),
      field("size", "input", "Size", { type: "number", min: 1, max: 999, placeholder: "fitting" }),
      field("target", "select", "Target", { onchange: () => this.#show() }),
      field("text", "input", "Text", { type: "text" }),
      field("entry", "select", "At"),
      this.chosen,
      element("button", {}, "Explain"),
      this.status,
    );
    this.form.onsubmit = async (event) => {
      event.preventDefault();
      if (await this.prepare()) this.#explain();
    };
    this.root = element(
      "details",
      { class: "why" },
      element("summary", {}, element("h2", {}, "Why")),
      this.form,
      this.problem,
      this.explained.root,
    );
  }

  /** Offer what a model has, with the maps that are rollouts. isRecorded: there is one explanation, without a choice. */
  describe({ inputs, results, maps, labelSets }, isRecorded) {
    const target = results.map(({ sequence }) => sequence?.targetInput).find(Boolean);
    const sets = labelSets.filter(({ input, kind }) => input && input !== target && UNITS[kind]);
    const kinds = [...new Set(sets.map(({ kind }) => kind))];
    const units = kinds.flatMap((kind) => UNITS[kind]).map((kind) => [kind, kind.toLowerCase()]);
    options(this.units, kinds.length > 1 ? [[ALL, "all parts"], ...units] : units);
    this.targets = new Map(results.flatMap((each, place) => targetsOf(each, place, results.length > 1)));
    options(
      this.target,
      [...this.targets].map(([value, { text }]) => [value, text]),
    );
    this.inputs = inputs;
    const looksAway = maps.some(({ interventions = [] }) => interventions.includes("INTERVENTION_KIND_KEY_FACTOR"));
    const has = {
      WAY_ATTENTION: maps.length > 0,
      WAY_ROLLOUT: maps.some(({ rollout }) => rollout),
      WAY_LOOK_AWAY: looksAway,
      WAY_LOOK_ONLY: looksAway,
    };
    const offered = Object.keys(WAYS).filter((way) => has[way] ?? true);
    const onchange = () => (this.isUsual = !this.#ways().length);
    this.boxes = offered.map((value) => element("input", { type: "checkbox", value, onchange }));
    this.chosen.replaceChildren(
      element("legend", { class: "hint" }, "Ways"),
      ...this.boxes.map((box) => element("label", { class: "toggle" }, box, ` ${WAYS[box.value].title}`)),
    );
    this.root.hidden = !results.length || !units.length;
    this.form.classList.toggle("recorded", isRecorded);
  }

  /** Take a selection, as an address has it; once there is an answer, it is explained as the selection says. */
  select(selection) {
    this.isWanted = Boolean(selection.why);
    this.root.open = this.isWanted;
    for (const name of ["units", "target"]) {
      const value = selection[`why.${name}`];
      if ([...this[name].options].some((each) => each.value === value)) this[name].value = value;
    }
    for (const name of ["size", "text"]) this[name].value = selection[`why.${name}`] ?? "";
    this.wantedEntry = selection["why.entry"];
    // Ways that nobody chose are those that the server takes for this model.
    this.isUsual = (selection.why ?? USUAL) === USUAL;
    const usual = ["attention", this.boxes.some(({ value }) => value === "WAY_LOOK_AWAY") ? "look_away" : "erase"];
    this.#check(this.isUsual ? usual : selection.why.split(","));
    this.#show();
  }

  #check(ways) {
    for (const each of this.boxes) each.checked = ways.includes(shortened(each.value));
  }

  /** The selection, as an address holds it: that of the explanation that is shown; empty for none. */
  selection() {
    return this.asked ?? {};
  }

  /** The value of a field; empty where the field is not shown. */
  #value(name) {
    return this[name].parentElement.hidden ? "" : this[name].value;
  }

  #selected() {
    const [units, target] = [this.units, this.target].map((each) => (each.selectedIndex > 0 ? each.value : ""));
    return {
      why: this.isUsual ? USUAL : this.#ways().map(shortened).join(","),
      "why.units": units,
      "why.size": this.#value("size"),
      "why.target": target,
      "why.text": this.#value("text"),
      "why.entry": this.#value("entry"),
    };
  }

  #ways() {
    return this.boxes.filter(({ checked }) => checked).map(({ value }) => value);
  }

  /** Show the fields that the choice of others leaves. */
  #show() {
    const { kind } = this.targets.get(this.target.value) ?? {};
    const sized = SIZED[this.units.value];
    this.size.parentElement.hidden = !sized;
    this.size.setAttribute("aria-label", sized ?? "");
    this.text.parentElement.hidden = !(kind in TEXTS) || (kind === "embedding" && !this.#textInput());
    this.text.placeholder = TEXTS[kind] ?? "";
    this.entry.parentElement.hidden = this.entry.options.length < 2;
  }

  #textInput() {
    return this.inputs.find(({ kind, optional }) => kind === "INPUT_KIND_TEXT" && !optional);
  }

  /** Forget the explanation, and offer the entries of an answer: [index, text] each. sources: texts of the inputs. */
  offer(entries, sources) {
    this.clear();
    this.sources = sources;
    const before = this.wantedEntry ?? this.entry.value;
    this.wantedEntry = undefined;
    const named = entries.slice(0, MOST_ENTRIES).map(([place, text]) => [place, `${place}: ${visible(text)}`]);
    options(this.entry, [["", "all of it"], ...named]);
    this.entry.value = before;
    if (this.entry.selectedIndex < 0) this.entry.value = "";
    this.#show();
    if (this.isWanted) this.#explain();
    this.isWanted = false;
  }

  clear() {
    this.controller?.abort();
    this.#setBusy(false);
    this.asked = null;
    this.explained.clear();
    this.problem.replaceChildren();
  }

  /** Explain the answer that is shown. */
  async #explain() {
    this.clear();
    const { signal } = (this.controller = new AbortController());
    this.#setBusy(true);
    this.asked = this.#selected();
    const kind = this.units.value;
    try {
      const [explanation, ...beside] = await this.explain(this.#request(), signal);
      if (signal.aborted) return;
      const units = { ...explanation.units, name: kind === ALL ? "units" : kind.toLowerCase() };
      this.explained.show({ ...explanation, units }, ...beside);
      if (this.isUsual) this.#check(explanation.ways.map(({ way }) => shortened(way)));
    } catch (error) {
      if (signal.aborted) return;
      this.problem.append(element("p", { class: "problem" }, told(error)));
    }
    this.#setBusy(false);
    this.onchange();
  }

  #setBusy(isBusy) {
    this.root.setAttribute("aria-busy", String(isBusy));
    this.status.textContent = isBusy ? "Explaining …" : "";
  }

  #request() {
    const { target = {}, kind, description } = this.targets.get(this.target.value) ?? {};
    const [text, entry, size] = ["text", "entry", "size"].map((name) => this.#value(name));
    const fields = {
      sequence: () => ({ text }),
      spans: () => ({ span: spanOf(text, description.part ?? "", this.sources) }),
      embedding: () => ({ similarTo: { inputs: { [this.#textInput().name]: { text } } } }),
    };
    return {
      target: {
        ...target,
        ...(text && fields[kind]()),
        ...(entry !== "" && { entry: Number(entry) }),
      },
      units: { kind: this.units.value === ALL ? undefined : `UNIT_KIND_${this.units.value}`, size: Number(size) },
      ways: this.isUsual ? [] : this.#ways(),
    };
  }

  repaint() {
    this.explained.repaint();
  }
}

/** Targets of a result: [value in an address, { text, kind, target: an ExplainTarget }]. place: among the results. */
function targetsOf({ name, ...description }, place, isOneOfSeveral) {
  const [kind] = Object.keys(description);
  const { labels = [], targets = [] } = description[kind];
  const before = isOneOfSeveral ? `${name}: ` : "";
  const result = place ? { result: name } : {};
  const own = { kind, description: description[kind] };
  const option = (text, fields) => ({ ...own, text: before + text, target: { ...result, ...fields } });
  return [
    [place ? name : "", option("the answer", {})],
    ...labels.map((label, index) => [`${name}/${index}`, option(label, { index })]),
    ...targets.map(({ name: label }) => [`${name}/${label}`, option(label, { label })]),
  ];
}

/** The first place of some words in a text of an instance, in a part of a pair: a TextSpan. Throws Problem for none. */
function spanOf(words, part, sources) {
  for (const [name, letters] of sources) {
    const at = letters.join("").indexOf(words);
    const own = /[.](first|second)$/.exec(name)?.[1] ?? "";
    if (at < 0 || (part && own !== part)) continue;
    const start = Array.from(letters.join("").slice(0, at)).length;
    return { start, end: start + Array.from(words).length, part: own };
  }
  throw new Problem(`The text has no “${words}”.`);
}

/** The name of a way in an address. */
function shortened(way) {
  return way.replace("WAY_", "").toLowerCase();
}
