// One axis of a map, drawn as what it is: words, lines, a picture, a recording. A panel has
//   root; paint(weights, scale, marked, sizes, last): shades its units by weights [unit], or by nothing, and marks one, or
//   those from it to the last; onhover(unit or null), onpin(unit, isLast): set by its owner, isLast where Shift is held;
//   units count from 0.

import { element, sharpen, theme } from "./dom.js";
import { weightOf } from "./maps.js";
import { FAINT, MARK, OVER } from "./palette.js";
import { over, shade } from "./scale.js";

const TEXTS = new Set(["tokens", "sentences"]);
const PICTURE_SIZE = 380;
/** Nodes of which a graph is drawn. */
export const MOST_NODES = 60;
// A text of more words than this is shaded as far as it is seen, so many words at a time.
const MANY = 2000;
const BLOCK = 200;

/** A colour scale, with the numbers at its ends. */
export class Legend {
  constructor() {
    this.canvas = element("canvas", { class: "legend", role: "img", width: 160, height: 12 });
    this.ends = element("span", { class: "ends" });
    this.root = element("div", { class: "scale" }, this.canvas, this.ends);
  }

  /** isTranslucent: as it is over a picture. ends: numbers in place of the scale's own. */
  paint(scale, isTranslucent = false, ends = scale.ends) {
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, 160, 12);
    for (let x = 0; x < 160; x += 1) {
      const strength = scale.signed ? x / 79.5 - 1 : x / 159;
      context.fillStyle = isTranslucent ? over(strength) : shade(strength, theme()).background;
      context.fillRect(x, 0, 1, 12);
    }
    this.ends.textContent = ends.join("  to  ");
    this.canvas.setAttribute("aria-label", `Colour scale: ${this.ends.textContent}`);
  }
}

/** Make the panel of an axis. picture: of the instance, as ImageBitmap, or null. */
export function makePanel(axis, units, label, picture) {
  return axis.grid || axis.kind === "frames"
    ? new CellsPanel(axis, label, picture)
    : new WordsPanel(axis, units, label);
}

class Panel {
  constructor(label, count, name) {
    this.cursor = null;
    this.onhover = this.onpin = () => {};
    this.root = element("div", {
      class: `panel ${name}`,
      tabindex: "0",
      role: "group",
      "aria-label": label,
      onmousemove: (event) => this.move(this.at(event)),
      onmouseleave: () => this.move(null),
      onmousedown: (event) => event.shiftKey && event.preventDefault(), // a span is pinned, no text selected
      onclick: (event) => this.at(event) !== null && this.onpin(this.at(event), event.shiftKey),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) {
          event.preventDefault();
          this.move(this.cursor === null ? 0 : Math.min(count - 1, Math.max(0, this.cursor + step)));
          this.root.querySelector(`[data-unit="${this.cursor}"]`)?.scrollIntoView({ block: "nearest" });
        } else if (event.key === "Enter" && this.cursor !== null) this.onpin(this.cursor, event.shiftKey);
      },
    });
  }

  move(unit) {
    if (unit === this.cursor) return;
    this.cursor = unit;
    this.onhover(unit);
  }

  /** The unit under the pointer, or null. */
  at(event) {
    const found = event.target.closest?.("[data-unit]");
    return found ? Number(found.dataset.unit) : null;
  }
}

function unitSpan(text, place, special) {
  return element(
    "span",
    { class: special ? "unit special" : "unit", "data-unit": place },
    /\S| /.test(text) ? text : visible(text),
  );
}

function tint(span, strength) {
  const { background, ink } = Math.abs(strength) < FAINT ? { background: "", ink: "" } : shade(strength, theme());
  span.style.backgroundColor = background;
  span.style.color = ink;
}

/** Words of a text, lines of their own for sentences, or chips for what is no text. */
class WordsPanel extends Panel {
  constructor(axis, units, label) {
    super(label, units.length, axis.kind === "sentences" ? "lines" : TEXTS.has(axis.kind) ? "words" : "chips");
    let owner;
    this.drawn = [];
    this.marked = [];
    // Of a long text, the words that are seen are shaded; others as they come into sight.
    this.seen = new Set();
    this.observer =
      units.length > MANY &&
      new IntersectionObserver((entries) =>
        entries.forEach(({ target, isIntersecting }) => {
          if (!isIntersecting) this.seen.delete(target);
          else this.#tint(this.seen.add(target) && target);
        }),
      );
    let block = this.root;
    this.spans = units.map((unit, place) => {
      const span = unitSpan(unit.text, place, unit.special);
      const input = axis.inputs.length > 1 ? axis.inputOf(unit.begin) : undefined;
      if (this.observer && place % BLOCK === 0) {
        this.root.append((block = element("span", { "data-first": place })));
        this.observer.observe(block);
      }
      block.append(
        input === owner ? (place && axis.kind !== "sentences" ? unit.gap : "") : element("div", { class: "part" }, (owner = input)),
        span,
      );
      return span;
    });
  }

  /** Shade the words of a block of a long text; of all of another. */
  #tint(block) {
    const first = Number(block.dataset.first ?? 0);
    const end = block === this.root ? this.spans.length : Math.min(this.spans.length, first + BLOCK);
    const colours = theme();
    for (let place = first; place < end; place += 1) {
      const strength = this.strength(place);
      const state = `${colours}${strength}`;
      if (this.drawn[place] !== state) tint(this.spans[place], strength);
      this.drawn[place] = state;
    }
  }

  paint(weights, scale, marked, sizes, last = marked) {
    this.strength = (place) =>
      weights ? Math.round(128 * scale.strength(weights[place], sizes?.[place])) / 128 : 0;
    for (const each of this.observer ? this.seen : [this.root]) this.#tint(each);
    for (const each of this.marked) each.classList.remove("marked");
    this.marked = this.spans.slice(marked ?? this.spans.length, (last ?? -1) + 1);
    for (const each of this.marked) each.classList.add("marked");
  }
}

/** Cells over a picture, with entries before them as chips; or the frames of a recording, in one row. */
class CellsPanel extends Panel {
  constructor(axis, label, picture) {
    super(label, axis.size, "picture");
    const { rows, columns, leading, region } = axis.grid ?? { rows: 1, columns: axis.size, leading: [] };
    Object.assign(this, { rows, columns, first: leading.length, picture: axis.grid ? picture : null, isTranslucent: true });
    const [width, height] = this.picture ? [picture.width, picture.height] : axis.grid ? [columns, rows] : [9, 1];
    // Cells may cover more than the picture, where it was padded, or less.
    const area = { left: 0, top: 0, right: width, bottom: height, ...(this.picture && region) };
    const [left, top] = [Math.min(0, area.left), Math.min(0, area.top)];
    const full = [Math.max(width, area.right) - left, Math.max(height, area.bottom) - top];
    const factor = PICTURE_SIZE / Math.max(...full);
    Object.assign(this, { factor, boxes: [] });
    this.frame = [-left * factor, -top * factor, width * factor, height * factor];
    this.box = [
      (area.left - left) * factor,
      (area.top - top) * factor,
      ((area.right - area.left) * factor) / columns,
      ((area.bottom - area.top) * factor) / rows,
    ];
    this.chips = leading.map((name, place) => unitSpan(name, place, true));
    this.canvas = element("canvas", { role: "img", "aria-label": `${label}: ${rows} × ${columns} cells` });
    this.context = sharpen(this.canvas, full[0] * factor, full[1] * factor);
    this.root.append(element("div", { class: "chips" }, ...this.chips), this.canvas);
    if (!axis.grid) this.root.append(`0 to ${(axis.ends.at(-1) ?? 0) / 1000} s`);
    this.paint(null);
  }

  at(event) {
    if (event.target !== this.canvas) return super.at(event);
    const [left, top, wide, high] = this.box;
    const zoom = parseFloat(this.canvas.style.width) / this.canvas.clientWidth; // below 1 on narrow screens
    const row = Math.floor((event.offsetY * zoom - top) / high);
    const column = Math.floor((event.offsetX * zoom - left) / wide);
    return row < 0 || column < 0 || row >= this.rows || column >= this.columns
      ? null
      : this.first + row * this.columns + column;
  }

  paint(weights, scale, marked = null, _sizes = null, last = marked) {
    const { context, canvas, picture, columns, first } = this;
    const [left, top, wide, high] = this.box;
    const cell = (place) => [left + (place % columns) * wide, top + Math.floor(place / columns) * high, wide, high];
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = picture?.width > PICTURE_SIZE / 2;
    if (picture) context.drawImage(picture, ...this.frame);
    context.strokeStyle = "rgba(128, 128, 128, 0.35)";
    for (let place = 0; place < this.rows * columns; place += 1) {
      const strength = weights ? scale.strength(weights[first + place]) : 0;
      context.fillStyle = over(strength);
      if (Math.abs(strength) >= FAINT) context.fillRect(...cell(place));
      if (wide > 3) context.strokeRect(...cell(place));
    }
    if (picture) this.boxes.forEach((each) => this.#outline(each));
    context.strokeStyle = MARK;
    context.lineWidth = 3;
    for (let entry = marked ?? Infinity; entry <= last; entry += 1)
      if (entry >= first) context.strokeRect(...cell(entry - first));
    context.lineWidth = 1;
    this.chips.forEach((chip, place) => {
      tint(chip, weights ? scale.strength(weights[place]) : 0);
      chip.classList.toggle("marked", marked !== null && place >= marked && place <= last);
    });
  }

  /** Outline an object, and write its class: dark below light, to be seen on any picture. */
  #outline({ label = "", left = 0, top = 0, right = 0, bottom = 0 }) {
    const { context, factor, frame } = this;
    const [x, y] = [frame[0] + left * factor, frame[1] + top * factor];
    context.font = "bold 13px system-ui, sans-serif";
    for (const [colour, width] of [
      ["#000", 4],
      ["#ffd60a", 2],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x, y, (right - left) * factor, (bottom - top) * factor);
    }
    context.strokeStyle = "#000";
    context.fillStyle = "#ffd60a";
    context.lineWidth = 3;
    context.strokeText(label, x + 4, y + 15);
    context.fillText(label, x + 4, y + 15);
    context.lineWidth = 1;
  }
}

/** Words inside their sentences, shaded by the weight of a word in its sentence times the sentence's own. */
export class NestedPanel extends Panel {
  /** units: of the keys, each in one sentence. */
  constructor({ key, query }, units, label) {
    super(label, units.length, "nested");
    let line;
    this.lines = [];
    this.words = units.map((unit, place) => {
      const parent = key.parents[unit.begin];
      if (line?.parent !== parent) {
        const [bar, share, content] = ["level", "sure", "content"].map((name) => element("span", { class: name }));
        content.append(indentation(query, parent));
        line = { parent, bar, share, content };
        this.lines.push(line);
        this.root.append(element("div", { class: "line" }, element("span", { class: "gauge" }, bar), share, content));
      } else line.content.append(unit.gap);
      const span = unitSpan(unit.text, place, unit.special);
      line.content.append(span);
      return { span, parent, unit };
    });
  }

  /** Shade the words of a head; levels: weights of the sentences, or null. scaleOf: makes a scale of what is shaded. */
  paintLevels(head, levels, scaleOf, format) {
    const products = this.words.map(
      ({ parent, unit }) => (weightOf(unit, head.row(parent), false) || 0) * (levels ? levels[parent] : 1),
    );
    const scale = scaleOf(products);
    this.words.forEach(({ span }, key) => tint(span, scale.strength(products[key])));
    for (const { parent, bar, share } of this.lines) {
      bar.style.width = `${levels ? 100 * Math.min(1, levels[parent]) : 0}%`;
      share.textContent = levels ? format(levels[parent]) : "";
    }
    return scale;
  }
}

/** The blanks before a sentence that begins a line of the text. */
function indentation({ sources, inputs, starts }, row) {
  const before = (sources.get(inputs[0]) ?? []).slice(0, starts[row] ?? 0).join("");
  return /(?:^|\n)([ \t]*)$/.exec(before)?.[1] ?? "";
}

/** Nodes on a circle, with an arrow for each edge. */
export class GraphPanel extends Panel {
  constructor(axis, label) {
    super(label, axis.size, "picture");
    this.texts = axis.texts;
    this.edges = []; // [node, one that it looks at] each, of those that have no weights
    this.canvas = element("canvas", { role: "img", "aria-label": label });
    this.context = sharpen(this.canvas, 460, 460);
    this.root.append(this.canvas);
    this.points = axis.texts.map((_, node) => {
      const angle = (2 * Math.PI * node) / axis.size - Math.PI / 2;
      return [230 + 170 * Math.cos(angle), 230 + 170 * Math.sin(angle), angle];
    });
  }

  at(event) {
    const zoom = 460 / this.canvas.clientWidth;
    const distances = this.points.map(([x, y]) => Math.hypot(x - event.offsetX * zoom, y - event.offsetY * zoom));
    const nearest = Math.min(...distances);
    return nearest < 24 ? distances.indexOf(nearest) : null;
  }

  /** Draw the edges of a head; node: shows its own edges alone, both ways; null for all. */
  paintEdges(head, scale, node) {
    const { context, points } = this;
    context.clearRect(0, 0, 460, 460);
    points.forEach((from, query) =>
      head.row(query).forEach((weight, key) => {
        if (Number.isNaN(weight) || (node !== null && query !== node && key !== node)) return;
        const strength = Math.abs(scale.strength(weight));
        context.strokeStyle =
          context.fillStyle = `rgba(${OVER[node !== null && query !== node ? 1 : 0]}, ${0.2 + 0.8 * strength})`;
        context.lineWidth = 1 + 5 * strength;
        arrow(context, from, points[key]);
      }),
    );
    const { color } = getComputedStyle(this.canvas);
    this.#paintNodes(6, (place) => (place === node ? MARK : color));
  }

  /** Shade the nodes themselves. */
  paint(weights, scale, marked) {
    const { context, points } = this;
    context.clearRect(0, 0, 460, 460);
    context.strokeStyle = context.fillStyle = "rgba(128, 128, 128, 0.7)";
    for (const [from, to] of this.edges) arrow(context, points[from], points[to], 14);
    this.#paintNodes(12, (place) => shade(scale.strength(weights[place]), theme()).background, marked);
  }

  /** Draw nodes of a radius with colours by their places, and their names. */
  #paintNodes(radius, colourOf, marked = null) {
    const { context, points, texts } = this;
    const { color } = getComputedStyle(this.canvas);
    context.font = "12px system-ui, sans-serif";
    points.forEach(([x, y, angle], place) => {
      context.fillStyle = colourOf(place);
      context.strokeStyle = place === marked ? MARK : color;
      context.lineWidth = place === marked ? 3 : 1;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
      context.fillStyle = color;
      context.textAlign = Math.cos(angle) > 0.2 ? "left" : Math.cos(angle) < -0.2 ? "right" : "center";
      context.fillText(shortened(texts[place], 8), x + 34 * Math.cos(angle), y + 34 * Math.sin(angle) + 4);
    });
  }
}

/** gap: between the arrow's head and the middle of the node. */
function arrow(context, [fromX, fromY, angle], [toX, toY], gap = 9) {
  const length = Math.hypot(toX - fromX, toY - fromY);
  context.beginPath();
  if (!length) {
    context.arc(fromX + 13 * Math.cos(angle), fromY + 13 * Math.sin(angle), 9, 0, 2 * Math.PI);
    context.stroke();
    return;
  }
  const [x, y] = [(toX - fromX) / length, (toY - fromY) / length];
  const [endX, endY] = [toX - gap * x, toY - gap * y];
  context.moveTo(fromX + (gap - 2) * x, fromY + (gap - 2) * y);
  context.lineTo(endX, endY);
  context.stroke();
  context.beginPath();
  context.moveTo(endX + 4 * x, endY + 4 * y);
  context.lineTo(endX - 6 * x - 5 * y, endY - 6 * y + 5 * x);
  context.lineTo(endX - 6 * x + 5 * y, endY - 6 * y - 5 * x);
  context.fill();
}

/** A text in which nothing is invisible. */
export function visible(text) {
  if (text === "") return "∅";
  return /\S/.test(text) ? text : text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣");
}

/** A unit as sentences name it. */
export function named({ text }) {
  return `“${shortened(visible(text), 40)}”`;
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function shortened(text, most = 16) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}
