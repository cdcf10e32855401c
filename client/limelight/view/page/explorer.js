// The maps of one answer: the choice of map and head, the open head, and all heads at a glance. The page and the
// notebook's widget both show it.

import { element, options } from "./dom.js";
import { HeadView } from "./headview.js";
import { Head, headName, isNested } from "./maps.js";
import { SORTS, Thumbnails } from "./thumbnails.js";

const FLAGS = { joined: "whole words", special: "special tokens", log: "log scale" };

// What a map may have beside weights.
const QUANTITIES = { "": "weights", QUANTITY_SCORES: "scores", QUANTITY_NORMS: "norms of weighted values" };

// Heads of a layer that have room beside the open one on a wide screen.
const FEW_HEADS = 4;
const UNPINNED = { q: null, k: null, to: null, window: null };

export class Explorer {
  /** onchange: called when the selection or the open head has changed. onproblem(error): a map could not be shown. */
  constructor(onchange, onproblem) {
    Object.assign(this, { onchange, onproblem, state: {}, head: null, answer: null });
    const part = (this.part = {});
    const made = (name, tag, attributes = {}, ...children) =>
      (part[name] = element(tag, { "data-part": name, ...attributes }, ...children));
    this.flags = Object.fromEntries(Object.keys(FLAGS).map((name) => [name, this.#flag(name)]));
    this.root = element(
      "div",
      { class: "explorer" },
      made(
        "maps",
        "section",
        { hidden: true },
        element(
          "div",
          { class: "toolbar" },
          element("label", {}, "Map ", made("map", "select")),
          element("label", {}, "Head ", made("head", "select")),
          element("label", {}, "Of ", made("quantity", "select")),
          made("mask", "button", { type: "button", class: "chip", hidden: true }, "Mask this head"),
          ...Object.entries(this.flags).map(([name, box]) =>
            element("label", { class: "toggle" }, box, ` ${FLAGS[name]}`),
          ),
        ),
        made("summary", "p", { class: "hint" }),
        made("view", "div"),
      ),
      made(
        "heads",
        "section",
        { class: "heads", hidden: true },
        element("h2", {}, "Heads"),
        element(
          "div",
          { class: "toolbar" },
          element("label", {}, "Sorted by ", made("sort", "select")),
          made("sorted", "span", { class: "hint" }),
        ),
        made("thumbnails", "div"),
      ),
    );
    part.map.onchange = () => this.open(part.map.value, null);
    part.head.onchange = () => this.open(this.state.map, part.head.value === "" ? null : Number(part.head.value));
    part.quantity.onchange = () => {
      this.#change({ quantity: part.quantity.value });
      this.open(this.state.map, this.state.head);
    };
    part.mask.onclick = () => this.answer.masks.toggle(this.state.map, this.state.head ?? 0);
    part.sort.onchange = () => {
      this.#change({ sort: part.sort.value });
      this.#showThumbnails();
    };
    this.view = new HeadView(part.view, (change) => {
      this.#change(change);
      if ("k" in change) this.#showThumbnails();
    });
    this.thumbnails = new Thumbnails(part.thumbnails, (map, index) => this.open(map, index));
  }

  #flag(name) {
    const box = element("input", {
      type: "checkbox",
      onchange: () => {
        this.#change({ [name]: box.checked });
        this.repaint();
      },
    });
    return box;
  }

  /** Take a selection, as an address has it. */
  select(selection) {
    const number = (name) => ((selection[name] ?? "") === "" ? null : Number(selection[name]));
    this.state = {
      map: selection.map,
      head: number("head"),
      sort: selection.sort ?? "",
      q: number("q"),
      k: number("k"),
      to: number("to"),
      quantity: selection.quantity ?? "",
      joined: selection.joined !== "0",
      special: selection.special !== "0",
      log: selection.log === "1",
      window: selection.window?.split("-").map(Number) ?? null,
    };
  }

  /** The selection, as an address holds it. */
  selection() {
    const { joined, special, log, window, ...others } = this.state;
    return {
      ...others,
      joined: joined ? "" : "0",
      special: special ? "" : "0",
      log: log ? "1" : "",
      window: window?.join("-"),
    };
  }

  #change(change) {
    Object.assign(this.state, change);
    this.onchange();
  }

  clear() {
    this.head = this.answer = null;
    this.part.maps.hidden = this.part.heads.hidden = true;
  }

  /**
   * Show an answer: { description: { maps, labelSets }, thumbnails: pooled or whole maps, axes, picture or null,
   * objects: found in it, or null, load(info of a map, head or null, quantity): promise of { map, levels }, masks: of heads,
   * with has(name, head) and toggle(name, head), or none }. keeps: what is pinned stays so.
   */
  async show(answer, keeps = false) {
    this.answer = answer;
    const { maps } = answer.description;
    if (!keeps) Object.assign(this.state, UNPINNED);
    const counts = answer.thumbnails.map((map) => map.heads.length);
    this.part.heads.hidden = !counts.length || (counts.length === 1 && counts[0] === 1); // one is open already
    this.root.classList.toggle("beside", !this.part.heads.hidden && Math.max(...counts) <= FEW_HEADS);
    this.#showThumbnails();
    options(
      this.part.map,
      maps.map(({ name }) => [name, name]),
    );
    const isKnown = maps.some(({ name }) => name === this.state.map);
    await this.open(isKnown ? this.state.map : natural(answer.description), isKnown ? this.state.head : null);
  }

  #showThumbnails() {
    const { part, answer } = this;
    const pinned = this.#pinned();
    this.counted = JSON.stringify(pinned);
    const [can, sort] = this.thumbnails.show(answer, this.state, pinned);
    options(
      part.sort,
      can.map((name) => [name, SORTS[name].title]),
    );
    part.sort.value = sort;
    part.sorted.textContent = SORTS[sort].about ?? "";
  }

  /** The keys that are pinned: { axis: name of their label set, begin, end }; null for none. */
  #pinned() {
    const { k, joined, to } = this.state;
    if (!this.head || (k ?? null) === null) return null;
    const { key } = this.head.map;
    const units = key.units({ joined: joined && !this.head.isKept, special: true });
    const [first, last] = [k, to ?? k].map((entry) => units.find(({ begin, end }) => entry >= begin && entry < end));
    return first && last ? { axis: key.name, begin: first.begin, end: last.end } : null;
  }

  /** Open a head of a map, or the mean of its heads (null). What is pinned stays so where the axes are the same. */
  async open(name, head) {
    const { part, answer } = this;
    const infoOf = (map) => answer.description.maps.find((each) => each.name === map);
    const [info, before] = [infoOf(name), infoOf(this.state.map)];
    const isAlike = before?.queryLabels === info.queryLabels && before?.keyLabels === info.keyLabels;
    const count = info.heads ?? 1;
    const index = count > 1 && head !== null && head < count ? head : null;
    // Words in sentences are shown by their weights times those of the sentences.
    const quantities = isNested(answer.description, info) ? [] : (info.quantities ?? []);
    const offered = Object.keys(QUANTITIES).filter((each) => !each || quantities.includes(each));
    const quantity = offered.includes(this.state.quantity) ? this.state.quantity : "";
    Object.assign(this.state, { map: name, head: index, quantity, ...(!isAlike && UNPINNED) });
    try {
      const { map, levels, kept } = await answer.load(info, index, quantity);
      const { state } = this;
      if (this.answer !== answer || state.map !== name || state.head !== index || state.quantity !== quantity) return;
      const names = Array.from({ length: count }, (_, each) => [
        count > 1 ? each : "",
        map.heads.length === count ? headName(map, each) : (map.headNames?.[each] ?? `head ${each}`),
      ]);
      options(part.head, [...(count > 1 ? [["", `mean of ${count} heads`]] : []), ...names]);
      part.head.value = index ?? "";
      part.head.parentElement.hidden = count === 1;
      part.map.value = name;
      options(
        part.quantity,
        offered.map((each) => [each, QUANTITIES[each]]),
      );
      part.quantity.value = quantity;
      part.quantity.parentElement.hidden = offered.length === 1;
      part.mask.hidden = !answer.masks || !isMaskable(info) || (count > 1 && index === null);
      part.mask.setAttribute("aria-pressed", String(Boolean(answer.masks?.has(name, index ?? 0))));
      part.summary.textContent = info.summary ?? "";
      this.levels = levels;
      this.head = kept ?? new Head(map, map.heads.length === 1 ? 0 : index);
      part.maps.hidden = false;
      this.#showHead();
      // The buttons stay, and with them the focus, where their numbers do.
      if (JSON.stringify(this.#pinned()) === this.counted) this.thumbnails.choose(name, index);
      else this.#showThumbnails();
    } catch (error) {
      this.onproblem(error);
    }
    this.onchange();
  }

  #showHead() {
    const { map } = this.head;
    const axes = [map.query, map.key];
    const isUseful = {
      joined: !this.head.isKept && axes.some((each) => each.words.length),
      special: !this.head.isKept && axes.some((each) => each.special.some(Boolean)),
      log: !map.signed,
    };
    for (const [name, box] of Object.entries(this.flags)) {
      box.parentElement.hidden = !isUseful[name];
      box.checked = this.state[name];
    }
    this.view.show(this.head, this.state, { ...this.answer, levels: this.levels });
  }

  /** Show what a unit of another axis looks at, or what looks at it; null for nothing. */
  point(axis, unit) {
    if (this.head) this.view.point(axis, unit);
  }

  unpin() {
    if (this.head) this.view.unpin();
  }

  /** Draw again: with other options, in other colours or for another width. */
  repaint() {
    if (!this.head) return;
    this.#showThumbnails();
    this.#showHead();
  }
}

/** Whether a model can answer without a head of a map. */
function isMaskable({ interventions = [] }) {
  return interventions.includes("INTERVENTION_KIND_HEAD_SCALES");
}

/** The map that shows most at once: the words of a document, one without queries, else one that looks across. */
function natural(description) {
  const { labelSets } = description;
  const maps = description.maps.filter((each) => !each.rollout);
  const setOf = (name) => labelSets.find((each) => each.name === name);
  const pooled = maps.filter((each) => setOf(each.queryLabels)?.kind === "LABEL_KIND_ONE");
  const found =
    maps.find((each) => isNested(description, each)) ??
    pooled.findLast((each) => setOf(each.keyLabels)?.grid) ??
    pooled.at(-1);
  return (found ?? maps.findLast((each) => each.kind === "MAP_KIND_CROSS") ?? maps.at(-1)).name;
}
