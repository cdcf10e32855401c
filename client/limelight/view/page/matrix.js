// A window of a map [query, key] on a canvas: zoom, pan, and the cell under the pointer.

import { element, sharpen, theme } from "./dom.js";
import { MARK } from "./palette.js";
import { shortened, visible } from "./panels.js";
import { colourTable, number, placeOf, Scale } from "./scale.js";

const LETTER = 6; // pixels of a label's letter
const MOST_LETTERS = 13;
const SLANT = 24; // pixels by which the last label leans out
const LABEL_SIZE = 11; // pixels of a cell from which every label is written
const MOST_CELL = 28;
const MOST_NAMED = 20; // units that have labels without numbers on any screen
const MOST_HEIGHT = 560;

export class Matrix {
  /** on: { hover(query, key) with units or nulls, pin(query, key), window(window) after zoom or pan,
   *  note(text) on the colours of a pooled window }. */
  constructor(width, on) {
    Object.assign(this, { width, on, cell: [null, null] });
    this.canvas = element("canvas", {
      tabindex: "0",
      role: "img",
      class: "matrix",
      ondblclick: () => this.reset(),
      onkeydown: (event) => this.#key(event),
      onwheel: (event) => this.#wheel(event),
      onpointerleave: () => this.#hover(null, null),
      onpointermove: (event) => this.#move(event),
      onpointerdown: (event) => {
        this.drag = { x: event.offsetX, y: event.offsetY, window: this.window, hasMoved: false };
        this.canvas.setPointerCapture(event.pointerId);
      },
      onpointerup: (event) => {
        const cell = this.#at(event);
        if (this.drag && !this.drag.hasMoved && cell[0] !== null) this.on.pin(...cell);
        this.drag = null;
      },
    });
  }

  /** Show weights [query, key] of units, or null for those of a head that is kept. window: [first query, end, first key, end], or null for all. */
  show({ weights, queries, keys, scale, head }, label, window) {
    Object.assign(this, { weights, queries, keys, scale, head });
    this.canvas.setAttribute("aria-label", `${label}: ${queries.length} queries × ${keys.length} keys`);
    this.whole = [0, queries.length, 0, keys.length];
    const isValid =
      window?.length === 4 &&
      window[0] >= 0 &&
      window[0] < window[1] &&
      window[1] <= queries.length &&
      window[2] >= 0 &&
      window[2] < window[3] &&
      window[3] <= keys.length;
    this.window = isValid ? window : this.whole;
    [this.left, this.top] = [queries, keys].map((units) => {
      const longest = units.reduce((most, { text }) => Math.max(most, text.length), 0);
      return 20 + LETTER * Math.min(MOST_LETTERS, longest + (units.length > MOST_NAMED ? 5 : 0));
    });
    const cell = Math.min((this.width - this.left - SLANT) / keys.length, MOST_CELL);
    this.area = [
      cell * keys.length,
      queries.length === keys.length ? cell * keys.length : Math.min(MOST_HEIGHT, MOST_CELL * queries.length),
    ];
    this.context = sharpen(this.canvas, this.left + this.area[0] + SLANT, this.top + this.area[1] + 1);
    this.draw();
  }

  reset() {
    this.#go(this.whole);
  }

  /** marked: a query, and the first and the last key of a span; null for none. */
  draw(mark = [null, null]) {
    const [query, key, last = key] = (this.mark = mark);
    const {
      context,
      area: [width, height],
      window: [first, end, left, right],
      left: x,
      top: y,
    } = this;
    const [high, wide] = [height / (end - first), width / (right - left)];
    const { color } = getComputedStyle(this.canvas);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    if (this.weights) context.drawImage(this.#tile(), x, y, width, height);
    else this.#drawKept(wide, high);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = context.strokeStyle = color;
    context.lineWidth = 0.5;
    context.strokeRect(x, y, width, height);
    context.textAlign = "right";
    for (const [text, place] of labels(this.queries, first, end, high)) context.fillText(text, x - 5, y + place);
    context.textAlign = "left";
    for (const [text, place] of labels(this.keys, left, right, wide)) {
      context.save();
      context.translate(x + place, y - 5);
      if (text.length > 1) context.rotate(-1.2);
      context.fillText(text, 0, 0);
      context.restore();
    }
    context.strokeStyle = MARK;
    context.lineWidth = 2;
    if (query >= first && query < end && query !== null) context.strokeRect(x, y + (query - first) * high, width, high);
    if (key === null || last < left || key >= right) return;
    const [from, to] = [Math.max(key, left), Math.min(last + 1, right)];
    context.strokeRect(x + (from - left) * wide, y, (to - from) * wide, height);
  }

  /** Draw the last window that arrived where it lies, and fetch the one that is shown. */
  #drawKept(wide, high) {
    const { context, window, area, left: x, top: y } = this;
    const made = [this.head, this.scale, theme(), ...window, ...area];
    if (!made.every((each, place) => each === this.made?.[place])) {
      this.made = made;
      this.fetching?.abort();
      this.fetching = new AbortController();
      const [columns, rows] = this.#pixels();
      this.head.window(window, [rows, columns], this.fetching.signal).then(
        (means) => {
          const [down, across] = [(window[1] - window[0]) / rows, (window[3] - window[2]) / columns];
          const scale = down * across > 1 ? this.#pooledScale(means, down, across) : this.scale;
          if (scale === this.scale) this.on.note("");
          this.tile = this.#picture(columns, rows, (row, column) => [means[row * columns + column], 1], scale);
          this.drawn = window;
          this.draw(this.mark);
        },
        () => (this.made = null), // asked for again with the next drawing
      );
    }
    if (!this.tile) return;
    const [first, end, left, right] = this.drawn;
    context.save();
    context.beginPath();
    context.rect(x, y, ...area);
    context.clip();
    context.drawImage(
      this.tile,
      x + (left - window[2]) * wide,
      y + (first - window[0]) * high,
      (right - left) * wide,
      (end - first) * high,
    );
    context.restore();
  }

  /** Means of many weights are all near the equal one: they have a scale of their own, which the note tells. */
  #pooledScale(means, down, across) {
    const largest = means.reduce((most, each) => Math.max(most, each), 0);
    const size = `${number(down)} × ${number(across)}`;
    this.on.note(` A pixel is the mean of ${size} weights; the strongest colour is ${number(largest)}.`);
    const { equal } = this.head.map;
    return Object.assign(new Scale({ largest, signed: false, equal, log: this.scale.log }), { high: largest });
  }

  /** Columns and rows of the window's picture. */
  #pixels() {
    const [first, end, left, right] = this.window;
    return this.area.map((size, place) =>
      Math.min(place ? end - first : right - left, Math.ceil(size * (globalThis.devicePixelRatio || 1))),
    );
  }

  /** The window as a picture, made anew only where something of it has changed: pointing redraws the frame alone. */
  #tile() {
    const made = [this.weights, this.scale, theme(), ...this.window, ...this.area];
    if (!made.every((each, place) => each === this.made?.[place])) {
      this.made = made;
      this.tile = this.#paint();
    }
    return this.tile;
  }

  /** Paint a pixel for each cell, or for several their mean where there are more cells than pixels. */
  #paint() {
    const [first, end, left, right] = this.window;
    const [columns, rows] = this.#pixels();
    const sizes = Int32Array.from(this.keys, (each) => each.end - each.begin);
    return this.#picture(columns, rows, (row, column) => {
      const [top, bottom] = cut(first, end, row, rows);
      const [from, to] = cut(left, right, column, columns);
      let [sum, count, size] = [0, 0, 0];
      for (let query = top; query < bottom; query += 1) {
        for (let key = from; key < to; key += 1) {
          const weight = this.weights[query * sizes.length + key];
          if (Number.isNaN(weight)) continue;
          sum += weight;
          count += 1;
          size += sizes[key];
        }
      }
      return [sum / count, size / count];
    });
  }

  /** meanOf(row, column): the mean weight of a pixel, NaN for none, and of how many tokens it is. */
  #picture(columns, rows, meanOf, scale = this.scale) {
    const image = new ImageData(columns, rows);
    const table = colourTable(theme());
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        const [mean, size] = meanOf(row, column);
        if (Number.isNaN(mean)) continue;
        const place = placeOf(scale.strength(mean, size));
        image.data.set([table[place], table[place + 1], table[place + 2], 255], (row * columns + column) * 4);
      }
    }
    const tile = new OffscreenCanvas(columns, rows);
    tile.getContext("2d").putImageData(image, 0, 0);
    return tile;
  }

  #at({ offsetX, offsetY }) {
    const [first, end, left, right] = this.window;
    const query = first + Math.floor(((offsetY - this.top) / this.area[1]) * (end - first));
    const key = left + Math.floor(((offsetX - this.left) / this.area[0]) * (right - left));
    return query >= first && query < end && key >= left && key < right ? [query, key] : [null, null];
  }

  #hover(query, key) {
    if (query === this.cell[0] && key === this.cell[1]) return;
    this.cell = [query, key];
    this.on.hover(query, key);
  }

  #move(event) {
    const { drag } = this;
    if (!drag) {
      this.#hover(...this.#at(event));
      return;
    }
    const [across, down] = [drag.x - event.offsetX, drag.y - event.offsetY];
    drag.hasMoved ||= Math.abs(across) + Math.abs(down) > 4;
    const [first, end, left, right] = drag.window;
    if (drag.hasMoved)
      this.#pan(drag.window, (down / this.area[1]) * (end - first), (across / this.area[0]) * (right - left));
  }

  #pan([first, end, left, right], down, across) {
    const rows = Math.max(-first, Math.min(this.queries.length - end, Math.round(down)));
    const columns = Math.max(-left, Math.min(this.keys.length - right, Math.round(across)));
    this.#go([first + rows, end + rows, left + columns, right + columns]);
  }

  #wheel(event) {
    // The page scrolls, unless somebody works with the map.
    if (!event.ctrlKey && this.canvas.getRootNode().activeElement !== this.canvas) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 0.8 : 1.25, ...this.#at(event));
  }

  /** Zoom about a cell, or about the middle. factor: below 1 to see less. */
  zoom(factor, query = null, key = null) {
    const [first, end, left, right] = this.window;
    this.#go([
      ...zoomed(first, end, query, factor, this.queries.length),
      ...zoomed(left, right, key, factor, this.keys.length),
    ]);
  }

  #go(window) {
    this.window = window;
    this.draw();
    this.on.window(window.every((each, place) => each === this.whole[place]) ? null : window);
  }

  #key(event) {
    const [first, end, left, right] = this.window;
    const [down, across] = [Math.ceil((end - first) / 8), Math.ceil((right - left) / 8)];
    const pan = { ArrowUp: [-down, 0], ArrowDown: [down, 0], ArrowLeft: [0, -across], ArrowRight: [0, across] }[
      event.key
    ];
    if (pan) this.#pan(this.window, ...pan);
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.7 : 1.4);
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }
}

function labels(units, from, to, size) {
  const found = [];
  for (let place = from; place < to; place += Math.max(1, Math.ceil(LABEL_SIZE / size))) {
    const text = visible(units[place].text);
    found.push([
      size < LABEL_SIZE ? `${place}: ${shortened(text, 7)}` : shortened(text, MOST_LETTERS),
      (place - from + 0.5) * size,
    ]);
  }
  return found;
}

function cut(from, to, place, places) {
  const size = (to - from) / places;
  return [
    from + Math.floor(place * size),
    from + Math.max(Math.floor(place * size) + 1, Math.floor((place + 1) * size)),
  ];
}

function zoomed(from, to, about, factor, most) {
  const middle = about === null ? (from + to) / 2 : about + 0.5;
  const size = Math.min(most, Math.max(Math.min(4, most), Math.round((to - from) * factor)));
  const start = Math.max(0, Math.min(most - size, Math.round(middle - ((middle - from) / (to - from)) * size)));
  return [start, start + size];
}
