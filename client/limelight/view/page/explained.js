// What an answer depends on: the units of its input, shaded in each way, with their values. The page and the notebook's
// widget both show it.

import { percent } from "./answer.js";
import { Axis } from "./axes.js";
import { Problem } from "./client.js";
import { element } from "./dom.js";
import { capital, GraphPanel, Legend, makePanel, MOST_NODES, named, shortened, visible } from "./panels.js";
import { number, Scale } from "./scale.js";

/** Ways by their names in the protocol; sign: of the change for a unit that the answer needs; none for shares. */
export const WAYS = {
  WAY_ATTENTION: { title: "attention" },
  WAY_ROLLOUT: { title: "rollout" },
  WAY_LOOK_AWAY: { title: "look away", doing: "looking away", sign: -1 },
  WAY_LOOK_ONLY: { title: "look only", doing: "looking at nothing else", sign: 1 },
  WAY_ERASE: { title: "erase", doing: "erasing", sign: -1 },
  WAY_ERASE_OTHERS: { title: "erase others", doing: "erasing all else", sign: 1 },
};
// The name of a patch.
const CELL = /^row (\d+), column (\d+)$/;
const COLOURS = "Blue: the answer needs it. Orange: it speaks against the answer.";
// What attention is held against first.
const SECONDS = ["WAY_LOOK_AWAY", "WAY_ERASE", "WAY_LOOK_ONLY", "WAY_ERASE_OTHERS"];

export class Explained {
  /** onpoint(axis of the units, unit or null): called when somebody points at a unit. */
  constructor(onpoint = () => {}) {
    this.onpoint = onpoint;
    this.root = element("div", { class: "explained" });
  }

  clear() {
    this.explanation = this.marked = null;
    this.root.replaceChildren();
  }

  /**
   * Show an Explanation. sources: texts of inputs, as axes take them. picture: of the instance, or null. edges: of its
   * graph, as GraphPanel takes them.
   */
  show(explanation, sources, picture, edges = []) {
    const { units, ways = [] } = explanation;
    this.parts = partsOf(units).map(({ places, ...part }) => {
      // Sentences stand in their text, as words do, and words of several texts.
      const isText = part.starts?.length && places.every((place) => sources.has(inputOf(units, place)));
      const axis = new Axis(isText ? { ...part, kind: "LABEL_KIND_TOKENS" } : part, sources);
      return { axis, places, units: axis.units({ joined: false, special: true }) };
    });
    this.units = [];
    for (const part of this.parts) part.places.forEach((place, at) => (this.units[place] = part.units[at]));
    this.columns = ways.map((each) => columnOf(each, this.units.length));
    Object.assign(this, { explanation, order: { column: null, isReversed: false } });
    this.readout = element("p", { class: "readout", "aria-live": "polite" });
    this.body = element("tbody");
    this.figures = element(
      "div",
      {},
      element("p", { class: "agreement" }, sentenceOf(explanation)),
      element("p", { class: "told" }, usualOf(explanation)),
      element("div", { class: "pair" }, ...this.columns.map((each) => this.#panel(each, picture, edges))),
      this.readout,
    );
    this.root.replaceChildren(this.figures, this.#table());
    this.repaint();
  }

  #panel(column, picture, edges) {
    column.legend = new Legend();
    column.panels = this.parts.map(({ axis, places, units }) => {
      const label = `${capital(column.title)}: ${axis.name}`;
      const isGraph = axis.kind === "nodes" && axis.size <= MOST_NODES;
      const panel = isGraph ? new GraphPanel(axis, label) : makePanel(axis, units, label, picture);
      return Object.assign(panel, { edges, onhover: (unit) => this.point(unit === null ? null : places[unit]) });
    });
    const { maps, title, sign } = column;
    const share = `share, mean of ${counted(maps.length, "map")}`;
    const about = sign ? `change of the ${scoreOf(this.explanation.target)}` : share;
    return element(
      "div",
      {},
      element("p", { class: "caption" }, `${capital(title)} · ${about}`),
      column.legend.root,
      ...column.panels.map((each) => each.root),
      sign && element("p", { class: "told" }, COLOURS),
    );
  }

  #table() {
    const titles = ["unit", ...this.columns.map(({ title }) => title)];
    this.heads = titles.map((title, at) => {
      const onclick = () => this.#sort(at ? at - 1 : null);
      return element("th", { scope: "col" }, element("button", { type: "button", class: "text", onclick }, title));
    });
    this.rows = this.units.map((unit, place) =>
      element(
        "tr",
        { "data-unit": place, onmouseenter: () => this.point(place), onmouseleave: () => this.point(null) },
        element("th", { scope: "row" }, named(unit)),
        ...this.columns.map(({ values }) => element("td", {}, number(values[place]))),
      ),
    );
    this.#sort(null);
    return element(
      "div",
      { class: "panel values", tabindex: "0", role: "group", "aria-label": "Values of the units" },
      element("table", { class: "compared" }, element("thead", {}, element("tr", {}, ...this.heads)), this.body),
    );
  }

  /** Sort by a column, the units first that the answer needs most; by their order for null. The same again: reversed. */
  #sort(column) {
    const isReversed = this.order.column === column && !this.order.isReversed && this.body.childElementCount > 0;
    this.order = { column, isReversed };
    const places = this.units.map((_, place) => place);
    const { effects } = this.columns[column] ?? {};
    if (effects) places.sort((a, b) => effects[b] - effects[a] || a - b);
    if (isReversed) places.reverse();
    this.body.replaceChildren(...places.map((place) => this.rows[place]));
    const isDown = isReversed === (column === null);
    this.heads.forEach((each, at) =>
      each.setAttribute("aria-sort", (at ? at - 1 : null) !== column ? "none" : isDown ? "descending" : "ascending"),
    );
  }

  /** Mark a unit, and tell its values; null for none. */
  point(unit) {
    this.marked = unit;
    this.repaint();
    this.rows.forEach((each, place) => each.classList.toggle("marked", place === unit));
    const values = (unit) => this.columns.map((each) => `${each.title} ${number(each.values[unit])}`);
    this.readout.textContent = unit === null ? "" : [named(this.units[unit]), ...values(unit)].join(" · ");
    const { axis, places } = this.parts.find((part) => part.places.includes(unit)) ?? this.parts[0];
    this.onpoint(axis, unit === null ? null : places.indexOf(unit));
  }

  repaint() {
    if (!this.explanation) return;
    for (const { panels, legend, effects, scale, sign } of this.columns) {
      this.parts.forEach(({ places }, part) => {
        const marked = places.indexOf(this.marked);
        const own = places.map((place) => effects[place]);
        panels[part].paint(own, scale, marked < 0 ? null : marked);
      });
      const ends = sign < 0 ? scale.ends.toReversed() : scale.ends;
      legend.paint(scale, panels.every((each) => each.isTranslucent), ends);
    }
  }
}

function inputOf({ inputs, inputIndices }, place) {
  return inputs?.[inputIndices?.[place] ?? 0] ?? "";
}

/**
 * Units that are drawn together: label sets, each with the places of its units. Patches that are among units of other
 * kinds are told by their names, and become a grid.
 */
function partsOf(units) {
  const all = Array.from({ length: units.size ?? 0 }, (_, place) => place);
  const cells = all.map((place) => CELL.exec(units.texts?.[place] ?? "")?.slice(1).map(Number));
  const own = (columns, places) =>
    Object.fromEntries(columns.map((name) => [name, units[name]?.length ? places.map((at) => units[name][at]) : []]));
  if (units.grid || !cells.some(Boolean)) return [{ ...units, places: all }];
  const groups = Map.groupBy(all, (place) => (cells[place] ? inputOf(units, place) : null));
  return [...groups].map(([name, places]) => {
    const part = { ...units, ...own(["texts", "starts", "ends", "parents", "inputIndices"], places), size: places.length };
    const [rows, columns] = (name === null ? null : cells[places.at(-1)])?.map((each) => each + 1) ?? [];
    const grid = rows * columns === places.length ? { kind: "LABEL_KIND_GRID", grid: { rows, columns }, texts: [] } : {};
    return { ...part, ...(name !== null && { name }), ...grid, places };
  });
}

/** A way with its values, and its effects: above 0 where the answer needs a unit. */
function columnOf({ way: name, values: stated = [], maps = [] }, count) {
  const [way, values] = [WAYS[name] ?? { title: name }, stated.map(Number)];
  if (values.length !== count || values.some(Number.isNaN))
    throw new Problem(`${capital(way.title)} of this explanation has ${values.length} values for ${count} units.`);
  const effects = values.map((each) => (way.sign ?? 1) * each);
  const finite = values.filter(Number.isFinite);
  const largest = Math.max(0, ...finite.map(Math.abs));
  const equal = way.sign ? null : finite.reduce((sum, each) => sum + each, 0) / values.length;
  return { ...way, maps, values, effects, scale: new Scale({ largest, signed: Boolean(way.sign), equal, log: false }) };
}

/** Whether attention agrees with what the answer depends on, in the words of the command line; empty for one way. */
function sentenceOf({ agreements = [], units }) {
  const orders = SECONDS.flatMap((second) => ["WAY_ATTENTION", "WAY_ROLLOUT"].map((first) => [first, second]));
  const isOf = (each, pair) => pair.includes(each.first) && pair.includes(each.second);
  const found = orders.map((pair) => agreements.find((each) => isOf(each, pair))).find(Boolean) ?? agreements[0];
  if (!found) return "";
  const [first, second] = [found.first, found.second].map((way) => WAYS[way]?.doing ?? WAYS[way]?.title ?? way);
  const { correlation, low, high } = found;
  const { size = 0, name } = units;
  const on = `${size} ${size === 1 ? name.replace(/(?<=ch)es$|s$/, "") : name}`;
  const unknown = `Whether ${first} and ${second} agree cannot be told from ${on}: `;
  if (correlation === undefined) return `${unknown}${size < 3 ? "that is too few" : "one of them is the same for all"}.`;
  const interval = low === undefined ? "" : ` (95 % interval ${low.toFixed(2)} to ${high.toFixed(2)})`;
  const said = `rank correlation ${correlation.toFixed(2)}${interval}.`;
  const verdict = low > 0 ? "agree" : high < 0 ? "disagree" : null;
  return verdict ? `${capital(first)} and ${second} ${verdict} on ${on}: ${said}` : unknown + said;
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** What is explained, such as “log-probability of good”. */
function scoreOf({ scoreKind = "", label = "", entry }) {
  const kind = scoreKind.replace("SCORE_KIND_", "").toLowerCase().replace("_", "-");
  return kind + (label && ` of ${visible(shortened(label, 60))}`) + (entry === undefined ? "" : ` at ${entry}`);
}

/** The usual score, and what the explanation cost. */
function usualOf({ target, rows = 0 }) {
  const { scoreKind, score = 0 } = target;
  const probability = scoreKind === "SCORE_KIND_LOG_PROBABILITY" ? ` (${percent(Math.exp(score))})` : "";
  return `${scoreOf(target)}: ${number(score)}${probability}, from ${counted(rows, "row")}`;
}
