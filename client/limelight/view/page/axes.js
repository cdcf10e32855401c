// Label sets: what the entries along an axis are, and the units in which an axis is shown.

import { Problem } from "./client.js";

const IN_WORD = /[\p{Lu}\p{Ll}\p{Lt}\d_]/u;
const MOST_BLANKS = 8;
const MOST_UNNAMED = 2 ** 21; // entries without texts, of all sets of an answer

/** One answer's axis. Columns have a value for each entry, or are empty. */
export class Axis {
  /** message: a LabelSet. sources: texts of inputs by name, in code points. parent: the axis that has its entries. */
  constructor(message, sources, parent) {
    this.name = message.name;
    this.kind = (message.kind ?? "").replace("LABEL_KIND_", "").toLowerCase();
    this.size = message.size ?? 0;
    this.special = message.special ?? [];
    this.words = message.words ?? [];
    this.starts = message.starts ?? [];
    this.ends = message.ends ?? [];
    this.parents = message.parents ?? [];
    this.parent = message.parent ?? "";
    this.inputs = message.inputs ?? [];
    this.inputIndices = message.inputIndices ?? [];
    this.grid = message.grid ? { rows: 0, columns: 0, leading: [], ...message.grid } : null;
    this.sources = sources;
    if (this.grid && this.grid.rows * this.grid.columns + this.grid.leading.length !== this.size)
      throw this.#bad(`a grid of ${this.grid.rows} × ${this.grid.columns}`);
    this.texts = message.texts?.length ? message.texts : this.#made(parent);
    if (this.texts.length !== this.size) throw this.#bad(`${this.texts.length} texts`);
    if (this.parents.length && this.starts.length && !this.words.length) this.words = this.#wordsOfText();
  }

  #bad(why) {
    return new Problem(`The labels ${this.name} cannot be read: ${this.size} entries, and ${why}.`);
  }

  /** Check that entries are parts of a whole of a size, each after the one before. */
  #checkParts(size) {
    const ends = this.starts.flatMap((start, place) => [start, this.ends[place]]);
    if (!ends.every((end, place) => end >= (place ? ends[place - 1] : 0) && end <= size))
      throw this.#bad(`parts that are none, in order, of ${size}`);
  }

  /** Words that no message states, of pieces inside sentences: letters of both cases, digits and `_` that meet. */
  #wordsOfText() {
    let word = -1;
    return this.texts.map((text, place) => {
      const before = place ? this.texts[place - 1] : "";
      const goesOn =
        this.starts[place] === this.ends[place - 1] &&
        this.parents[place] === this.parents[place - 1] &&
        IN_WORD.test(before.slice(-1)) &&
        IN_WORD.test(text.slice(0, 1));
      return goesOn ? word : (word += 1);
    });
  }

  #made(parent) {
    if (this.grid) {
      const cells = [];
      for (let row = 0; row < this.grid.rows; row += 1) {
        for (let column = 0; column < this.grid.columns; column += 1) cells.push(`r${row}c${column}`);
      }
      return [...this.grid.leading, ...cells];
    }
    const sentences = this.kind === "sentences" && this.sources.get(`${this.inputs[0]}.sentences`);
    if (sentences?.length >= this.size) return sentences.slice(0, this.size);
    if (this.kind === "sentences" && this.starts.length) {
      const source = this.sources.get(this.inputs[0]);
      if (source) this.#checkParts(source.length);
      if (source) return this.starts.map((start, place) => source.slice(start, this.ends[place]).join(""));
    }
    if (this.kind === "ranges" && parent) {
      this.#checkParts(parent.size);
      return this.starts.map((start, place) => `${parent.texts[start]} … ${parent.texts[this.ends[place] - 1]}`);
    }
    if (this.size === 1) return [this.name];
    // What a graph, or another input, has nodes for, its own name says.
    const noun = (this.kind === "nodes" ? this.name : this.kind).replace(/s$/, "").replace("_", " ");
    return Array.from({ length: this.size }, (_, place) => `${noun} ${place}`);
  }

  isSpecial(entry) {
    return Boolean(this.special[entry]);
  }

  /** The entries where an entry of another axis is, of cells that in its middle: first and last; null for none. */
  entriesAt(other, place) {
    if (this.kind === "nodes" && other.kind === this.kind) return [place, place];
    if (this.grid && other.grid) {
      const [row, column] = [Math.floor(place / other.grid.columns), place % other.grid.columns];
      const middle = (at, side) => Math.floor(((at + 0.5) * this.grid[side]) / other.grid[side]);
      const entry = this.grid.leading.length + middle(row, "rows") * this.grid.columns + middle(column, "columns");
      return [entry, entry];
    }
    const isThere = (start, entry) =>
      start < other.ends[place] &&
      this.ends[entry] > other.starts[place] &&
      this.inputOf(entry) === other.inputOf(place) &&
      (other.parents[place] ?? this.parents[entry]) === this.parents[entry] &&
      !this.isSpecial(entry);
    const first = this.starts.findIndex(isThere);
    return first < 0 ? null : [first, this.starts.findLastIndex(isThere)];
  }

  /** Input of an entry; undefined if none determines it. */
  inputOf(entry) {
    return this.inputs[this.inputIndices[entry] ?? 0];
  }

  /**
   * What is shown along the axis: words or single entries, with or without special tokens.
   * Each has { begin, end, text, gap, special, start, label }; gap: the text before it.
   */
  units({ joined, special }) {
    const units = [];
    for (let begin = 0; begin < this.size;) {
      let end = begin + 1;
      if (joined && this.words.length && this.words[begin] >= 0) {
        while (end < this.size && this.words[end] === this.words[begin] && this.inputOf(end) === this.inputOf(begin))
          end += 1;
      }
      if (special || !this.isSpecial(begin)) units.push(this.#unit(begin, end, units.at(-1)));
      begin = end;
    }
    return units;
  }

  /** The text of adjacent entries; what pieces of one character both cover is there once. */
  #joined(begin, end) {
    let reached = 0;
    const pieces = this.texts.slice(begin, end).map((text, place) => {
      const [start, stop] = [this.starts[begin + place], this.ends[begin + place]];
      const letters = [...text];
      if (letters.length === stop - start) letters.splice(0, Math.max(0, reached - start));
      reached = Math.max(reached, stop ?? 0);
      return letters.join("");
    });
    return pieces.join("");
  }

  #unit(begin, end, before) {
    const text = this.#joined(begin, end);
    const unit = { begin, end, text, special: this.isSpecial(begin), gap: " " };
    const follows = before && before.end === begin && !unit.special && !before.special;
    const sameInput = before && this.inputOf(before.begin) === this.inputOf(begin);
    if (this.kind === "tokens" && this.starts.length && follows && sameInput) {
      const source = this.sources.get(this.inputOf(begin));
      const from = this.ends[before.end - 1];
      // Blanks stand for a text that is not here.
      const length = this.starts[begin] - from;
      if (length >= 0)
        unit.gap = source?.slice(from, from + length).join("") ?? " ".repeat(Math.min(MOST_BLANKS, length));
    }
    return unit;
  }
}

/** Read the label sets of an answer; known: those of earlier messages. Gives axes by name. */
export function readAxes(messages, sources, known = new Map()) {
  const axes = new Map(known);
  const waiting = [...(messages ?? [])];
  // A set of a few bytes may state any size.
  const unnamed = waiting.filter((each) => !each.texts?.length).reduce((sum, each) => sum + Math.max(0, each.size ?? 0), 0);
  if (!(unnamed <= MOST_UNNAMED)) throw new Problem(`The labels of this answer cannot be read: ${unnamed} entries.`);
  // Ranges take their texts from their parents, whatever the order.
  waiting.sort((a, b) => Number(a.kind === "LABEL_KIND_RANGES") - Number(b.kind === "LABEL_KIND_RANGES"));
  for (const each of waiting) axes.set(each.name, new Axis(each, sources, axes.get(each.parent)));
  return axes;
}

/** Texts of an instance by the names that label sets have for them, each as a list of code points. */
export function sourcesOf(inputs) {
  const sources = new Map();
  for (const [name, value] of Object.entries(inputs)) {
    if (value.text !== undefined) sources.set(name, Array.from(value.text));
    if (value.document?.text !== undefined) sources.set(name, Array.from(value.document.text));
    if (value.document?.sentences) sources.set(`${name}.sentences`, value.document.sentences.texts);
    if (value.pair) {
      sources.set(`${name}.first`, Array.from(value.pair.first ?? ""));
      sources.set(`${name}.second`, Array.from(value.pair.second ?? ""));
    }
  }
  return sources;
}
