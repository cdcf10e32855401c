// All heads at a glance: a small picture of each, by layer or sorted by a number.

import { element, sharpen, theme } from "./dom.js";
import { headName, statistics } from "./maps.js";
import { colourTable, number, placeOf, Scale } from "./scale.js";

const SIZE = 64;
export const SORTS = {
  "": { title: "layer" },
  entropy: { title: "entropy", about: "how evenly a query looks at all keys, from 0 (one key) to 1 (all alike)" },
  distance: { title: "distance", about: "how many entries away a query looks, on average" },
  special: { title: "special tokens", about: "share of the weight on special tokens" },
  pinned: { title: "what is pinned", about: "share of the weight on what is pinned" },
};

export class Thumbnails {
  /** onopen(name of a map, index of its head). */
  constructor(root, onopen) {
    Object.assign(this, { root, onopen });
    root.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const buttons = [...root.querySelectorAll("button")];
      const next = step && buttons[buttons.indexOf(root.getRootNode().activeElement) + step];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    });
  }

  /**
   * Show the pooled maps of an answer. pinned: a span of keys, or null. Returns the numbers by which they can be sorted,
   * and the one by which they are.
   */
  show({ thumbnails: maps, axes, masks }, { sort, log, map: name, head }, pinned) {
    this.masks = masks;
    const heads = maps.flatMap((map) => statistics(map, axes, pinned).map((numbers, index) => ({ map, index, numbers })));
    const can = Object.keys(SORTS).filter((each) => !each || heads.some(({ numbers }) => numbers[each] !== null));
    const by = can.includes(sort) ? sort : "";
    this.buttons = [];
    if (by) {
      const known = heads.filter(({ numbers }) => numbers[by] !== null).sort((a, b) => b.numbers[by] - a.numbers[by]);
      this.root.replaceChildren(
        element(
          "div",
          { class: "thumbs" },
          ...known.map((each) => this.#button(each, `${each.map.name} ${nameOf(each)}`, number(each.numbers[by]), log)),
        ),
      );
    } else {
      this.root.replaceChildren(this.#grid(maps, heads, log));
    }
    this.choose(name, head);
    return [can, by];
  }

  /** Layers by heads, a column for each head at any width; maps of one head each one after the other. */
  #grid(maps, heads, log) {
    const count = Math.max(...maps.map((map) => map.heads.length));
    const isNamed = maps.some((map) => map.headNames);
    if (count < 2)
      return element("div", { class: "thumbs" }, ...heads.map((each) => this.#button(each, each.map.name, "", log)));
    const numbers = isNamed ? [] : Array.from({ length: count }, (_, head) => element("small", {}, String(head)));
    const grid = element("div", { class: "layers", role: "presentation" });
    grid.style.setProperty("--heads", count);
    if (numbers.length) grid.append(element("small", { class: "corner" }, "head"), ...numbers);
    for (const map of maps) {
      const row = heads.filter((each) => each.map === map);
      grid.append(
        element("span", { class: "name", title: map.name }, map.name),
        ...row.map((each) => this.#button(each, isNamed ? nameOf(each) : "", "", log)),
      );
    }
    return grid;
  }

  #button(head, caption, value, log) {
    const { map, index, numbers } = head;
    const told = Object.keys(SORTS)
      .filter((name) => name && numbers[name] !== null)
      .map((name) => `${SORTS[name].title} ${number(numbers[name])}`);
    const button = element(
      "button",
      {
        type: "button",
        class: this.masks?.has(map.name, index) ? "thumb masked" : "thumb",
        tabindex: "-1",
        title: told.join(", "),
        "aria-label": [map.name, headName(map, index), ...told].join(", "),
        onclick: () => this.onopen(map.name, index),
      },
      draw(head, log),
      element("small", {}, caption),
      element("small", { class: "value" }, value),
    );
    this.buttons.push({ button, name: map.name, index });
    return button;
  }

  /** Mark the open head; index: null for all heads of a map. */
  choose(map, head) {
    const isChosen = ({ name, index }) => name === map && (head === null || index === head);
    const first = this.buttons.find(isChosen) ?? this.buttons[0];
    for (const each of this.buttons) {
      each.button.setAttribute("aria-current", isChosen(each));
      each.button.tabIndex = each === first ? 0 : -1;
    }
  }
}

function nameOf({ map, index }) {
  return map.heads.length > 1 || map.headNames ? headName(map, index) : "";
}

function draw({ map, index }, log) {
  const size = map.rows * map.columns;
  const values = map.values.subarray(index * size, (index + 1) * size);
  const largest = values.reduce((most, each) => Math.max(most, Math.abs(each) || 0), 0);
  // A pooled cell is a mean over keys, so that equal weights are those of the whole map.
  const keys = map.key.kind === "ranges" ? map.key.ends.at(-1) : map.columns;
  const scale = new Scale({
    largest,
    signed: map.signed,
    equal: map.isShare && !map.isNested ? 1 / keys : null,
    log,
  });
  // One row over a grid is laid out as the grid.
  const { grid } = map.key;
  const [rows, columns] =
    map.rows === 1 && grid && !grid.leading.length ? [grid.rows, grid.columns] : [map.rows, map.columns];
  const image = new ImageData(columns, rows);
  const table = colourTable(theme());
  values.forEach((value, at) => {
    const place = placeOf(scale.strength(value));
    image.data.set([table[place], table[place + 1], table[place + 2], Number.isNaN(value) ? 0 : 255], at * 4);
  });
  const tile = new OffscreenCanvas(columns, rows);
  tile.getContext("2d").putImageData(image, 0, 0);
  const canvas = element("canvas", {});
  const context = sharpen(canvas, SIZE, SIZE);
  canvas.style.width = ""; // that of its column
  context.imageSmoothingEnabled = false;
  context.drawImage(tile, 0, 0, SIZE, SIZE);
  return canvas;
}
