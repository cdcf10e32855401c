// One head: what queries look at and what looks at keys, as words, pictures or a graph, with the map as a matrix.

import { element } from "./dom.js";
import { meanRow, sumColumn, unitWeights, weightOf } from "./maps.js";
import { Matrix } from "./matrix.js";
import { capital, GraphPanel, Legend, makePanel, MOST_NODES, named, NestedPanel } from "./panels.js";
import { number, Scale } from "./scale.js";

const HELP = "Rows look at columns. Zoom with the buttons, + and −, or Ctrl and the wheel; drag to move.";

export class HeadView {
  /** onchange({ q, k, to, window }): entries that are pinned, and the window of the matrix; each may be null. */
  constructor(root, onchange) {
    Object.assign(this, { root, onchange });
  }

  /**
   * head: a Head. options: { joined, special, log, q, k, to, window }; to: the last key of a span that begins at k. picture: of the instance. objects: found in it, a message
   * Boxes. levels: weights of a nested map's queries. All three may be null.
   */
  show(head, options, { picture, objects, levels }) {
    Object.assign(this, { head, options, picture, objects, levels, hovered: {} });
    const { map } = head;
    // Windows of a head that is kept are of single entries.
    const shown = head.isKept ? { joined: false, special: true } : options;
    this.queries = map.query.units(shown);
    this.keys = map.key.units(shown);
    if (!this.queries.length || !this.keys.length) {
      // There are special tokens only: they are shown after all.
      [this.queries, this.keys] = [map.query, map.key].map((each) => each.units({ joined: false, special: true }));
    }
    this.sizes = map.signed ? null : this.keys.map((each) => each.end - each.begin);
    this.legend = new Legend();
    this.readout = element("p", { class: "readout", "aria-live": "polite" });
    this.caption = element("p", { class: "caption" });
    this.root.replaceChildren(
      element("div", { class: "above" }, this.legend.root, this.readout),
      ...this.#content(),
    );
    this.#paint();
  }

  #content() {
    const { map } = this.head;
    this.graph = this.nested = this.keyPanel = this.queryPanel = this.matrix = null;
    if (map.isNested) {
      this.keys = map.key.units({ joined: this.options.joined, special: true });
      this.nested = new NestedPanel(map, this.keys, `Words of ${map.query.name}`);
      this.nested.onhover = (key) => this.#hover(key === null ? null : map.key.parents[this.keys[key].begin], key);
      return [this.nested.root];
    }
    const onQuery = { onhover: (query) => this.#hover(query, null), onpin: (query) => this.#pin(query, null) };
    if (map.query.kind === "nodes" && map.query.name === map.key.name && map.rows <= MOST_NODES) {
      this.graph = Object.assign(new GraphPanel(map.query, `Graph of ${map.query.name}`), onQuery);
      return [this.caption, this.graph.root, this.#matrix()];
    }
    this.keyPanel = makePanel(map.key, this.keys, `Keys: ${map.key.name}`, this.picture);
    Object.assign(this.keyPanel, { onhover: (key) => this.#hover(null, key), onpin: (key, isLast) => this.#pin(null, key, isLast) });
    const keySide = element("div", {}, this.caption, this.keyPanel.root);
    if (map.rows === 1) return [element("div", { class: "pair" }, keySide)];
    this.queryPanel = Object.assign(
      makePanel(map.query, this.queries, `Queries: ${map.query.name}`, this.picture),
      onQuery,
    );
    this.queryCaption = element("p", { class: "caption" });
    return [
      element("div", { class: "pair" }, element("div", {}, this.queryCaption, this.queryPanel.root), keySide),
      this.#matrix(),
    ];
  }

  #matrix() {
    const note = element("span", { class: "hint" });
    this.matrix = new Matrix(Math.max(260, Math.min(760, this.root.clientWidth - 8)), {
      hover: (query, key) => this.#hover(query, key),
      pin: (query, key) => this.#pin(query, key),
      window: (window) => this.#change({ window }),
      note: (text) => note.replaceChildren(text),
    });
    const button = (text, label, onclick) =>
      element("button", { type: "button", class: "chip", "aria-label": label, onclick }, text);
    return element(
      "div",
      { class: "map" },
      element(
        "div",
        { class: "buttons" },
        button("+", "Zoom in", () => this.matrix.zoom(0.7)),
        button("−", "Zoom out", () => this.matrix.zoom(1.4)),
        button("All", "Show the whole map", () => this.matrix.reset()),
        element("span", { class: "hint" }, HELP),
        note,
      ),
      element("div", { class: "scroll" }, this.matrix.canvas),
    );
  }

  #change(change) {
    Object.assign(this.options, change);
    this.onchange(change);
  }

  #hover(query, key) {
    this.hovered = { query, key };
    this.#show();
  }

  /** Pin units; or unlock them, if they are pinned. isLast: the key ends a span that begins at the one that is pinned. */
  #pin(query, key, isLast = false) {
    const { q, k } = this.options;
    let pinned = { q: this.queries[query]?.begin ?? null, k: this.keys[key]?.begin ?? null, to: null };
    if (isLast && k !== null) pinned = { q, k: Math.min(k, pinned.k), to: Math.max(k, pinned.k) };
    else if (pinned.q === q && pinned.k === k) pinned = { q: null, k: null, to: null };
    this.#change(pinned);
    this.#show();
  }

  /** Point at the query, or else the key, that is where a unit of another axis is; null for nothing. */
  point(axis, unit) {
    if (this.nested || this.head.isKept) return;
    const [query, [key, last]] = ["query", "key"].map((name) => {
      const entries = unit === null ? null : this.head.map[name].entriesAt(axis, unit);
      const units = name === "query" ? this.queries : this.keys;
      return (entries ?? [null, null]).map((entry) => unitOf(units, entry));
    });
    this.hovered = query[0] === null ? { query: null, key, last } : { query: query[0], key: null };
    this.#show();
  }

  unpin() {
    this.#change({ q: null, k: null, to: null });
    this.#show();
  }

  #scaleOf(weights) {
    const { map } = this.head;
    let largest = 0;
    for (let at = 0; at < weights.length; at += 1) {
      const weight = Math.abs(weights[at]) / (this.sizes && !this.nested ? this.sizes[at % this.sizes.length] : 1);
      if (weight > largest) largest = weight;
    }
    return new Scale({ largest, signed: map.signed, equal: map.equal, log: this.options.log });
  }

  /** Compute scales, and draw what no pointer changes. */
  #paint() {
    const { head, options, keys } = this;
    if (this.nested) {
      this.legend.paint(this.nested.paintLevels(head, this.levels, (products) => this.#scaleOf(products), number));
    } else {
      this.weights = head.isKept ? null : unitWeights(head, this.queries, keys);
      this.scale = this.#scaleOf(this.weights ?? [head.largest]);
      const mean = head.mean();
      this.means = keys.map((each) => weightOf(each, mean, head.map.signed));
      this.meanScale = head.map.rows === 1 ? this.scale : this.#scaleOf(this.means);
      this.matrix?.show(this, head.label, options.window);
    }
    this.#show();
  }

  #show() {
    if (this.nested) {
      this.#tellNested();
      return;
    }
    const { head, options, queries, keys } = this;
    const pinned = { query: unitOf(queries, options.q), key: unitOf(keys, options.k) };
    const isPinned = pinned.query !== null || pinned.key !== null;
    const { query = null, key = null } = isPinned ? pinned : this.hovered;
    const span = this.#span(key, isPinned);
    const arrival = head.isKept && head.fetch(query, span);
    if (arrival) {
      arrival.then(
        (isWanted) => isWanted && this.head === head && this.#show(),
        (error) => (this.readout.textContent = error.message),
      );
      this.matrix?.draw([query, key, span?.last]);
      return;
    }
    if (this.graph) this.#showGraph(query ?? key);
    else this.#showPanels(query, key, span);
    this.matrix?.draw([query, key, span?.last]);
    this.#tell(query ?? this.hovered.query ?? null, span ?? this.#span(this.hovered.key, isPinned), isPinned);
  }

  /** The key units from one to the end of the span that is pinned: { first, last, begin, end, text }; null for none. */
  #span(key, isPinned) {
    const { keys, options } = this;
    if (!keys[key]) return null;
    const pinned = () => (options.to === null ? key : keys.findLastIndex(({ begin }) => begin <= options.to));
    const last = Math.max(key, isPinned ? pinned() : (this.hovered.last ?? key));
    const texts = keys.slice(key, last + 1).map(({ text, gap }, place) => (place ? gap : "") + text);
    return { first: key, last, begin: keys[key].begin, end: keys[last].end, text: texts.join("") };
  }

  #showGraph(node) {
    this.graph.paintEdges(this.head, this.scale, node);
    this.caption.textContent =
      node === null
        ? "Arrows go from a node to the nodes that it looks at"
        : `${named(this.queries[node])}: blue is what it looks at, orange what looks at it`;
    this.legend.paint(this.scale);
  }

  #showPanels(query, key, span) {
    const { head, queries, keys, sizes } = this;
    const { map } = head;
    // A key alone is asked for what looks at it, and then no key is shaded.
    const isColumn = query === null && key !== null && this.queryPanel !== null;
    let [weights, scale] = [isColumn ? null : this.means, isColumn ? this.scale : this.meanScale];
    if (query !== null) {
      const row = meanRow(head, queries[query]);
      [weights, scale] = [keys.map((each) => weightOf(each, row, map.signed)), this.scale];
    }
    this.keyPanel.boxes = this.#boxesOf(queries[query]);
    this.keyPanel.paint(weights, scale, key, sizes, span?.last);
    if (this.queryPanel) {
      const column = isColumn && sumColumn(head, span);
      this.queryPanel.paint(
        isColumn ? queries.map((each) => weightOf(each, column, true)) : null,
        scale,
        query,
        isColumn && sizes ? queries.map(() => span.end - span.begin) : null,
      );
      const hint = element("span", { class: "hint" }, " point at one to see what it looks at");
      this.queryCaption.replaceChildren(
        ...(isColumn ? [`What looks at ${named(span)}`] : [titled(map.query), hint]),
      );
    }
    const mean = map.rows === 1 ? "What is looked at" : `What is looked at, mean over ${map.rows} queries`;
    this.caption.textContent =
      query !== null ? `What ${named(queries[query])} looks at` : isColumn ? titled(map.key) : mean;
    // Beside a matrix the scale is that of the matrix.
    this.legend.paint(scale, !this.matrix && this.keyPanel.isTranslucent);
  }

  /** The objects that are drawn: that of a query which found one, else all. */
  #boxesOf(unit) {
    const { boxes = [], labelSet } = this.objects ?? {};
    if (!unit || this.head.map.query.name !== labelSet) return boxes;
    return boxes.filter(({ query = 0 }) => query >= unit.begin && query < unit.end);
  }

  /** Tell the weight between what is pinned or pointed at. */
  #tell(query, span, isPinned) {
    const { map } = this.head;
    const row = map.rows === 1 ? 0 : query;
    let text = "";
    if (span) {
      const count = this.keys.length;
      const weights = row === null ? this.means : (this.weights?.subarray(row * count, (row + 1) * count) ?? this.head.row(row));
      if (!weights) return; // another row is fetched
      const chosen = weights.slice(span.first, span.last + 1);
      const weight = chosen.reduce((sum, each) => sum + each, 0) / (map.signed ? chosen.length : 1);
      const times = map.equal && weight > 0 ? `, ${number(weight / map.equal / (span.end - span.begin))} × equal` : "";
      const from = row === null ? "mean → " : map.rows === 1 ? "" : `${named(this.queries[row])} → `;
      text = `${from}${named(span)}: ${number(weight)}${times}`;
    }
    this.readout.textContent = [text, isPinned ? "pinned, Esc unlocks" : ""].filter(Boolean).join(" · ");
  }

  #tellNested() {
    const {
      head,
      levels,
      hovered: { query, key },
    } = this;
    if (Number.isInteger(key)) {
      const line = levels ? `, whose own weight is ${number(levels[query])}` : "";
      const unit = this.keys[key];
      this.readout.textContent = `${named(unit)}: ${number(weightOf(unit, head.row(query), false))} of its line${line}`;
    } else
      this.readout.textContent = `Shaded: the weight of a word in its line${levels ? ", times that of the line, which the bar shows" : ""}.`;
  }
}

/** The place of the unit that has an entry; null for none. */
function unitOf(units, entry) {
  const found = entry === null ? -1 : units.findIndex(({ begin, end }) => entry >= begin && entry < end);
  return found < 0 ? null : found;
}

function titled({ name }) {
  return capital(name.replace(/[_.]/g, " "));
}
