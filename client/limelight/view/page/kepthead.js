// A head of a long input, which the page's own server keeps: rows, columns and windows of it arrive on demand.

import { headName } from "./maps.js";

const MOST_KEPT = 32; // rows and columns

export class KeptHead {
  /**
   * map: as `readMap` gives it, without values. index: of the head; null for the mean of all. largest: weight.
   * window(window, [rows, columns], signal): promise of means [row, column].
   */
  constructor(map, index, largest, window) {
    Object.assign(this, { map, index, largest, window, kept: new Map(), isKept: true });
  }

  /** Fetch what every view needs: the mean over queries. */
  async open(signal) {
    const { rows, columns } = this.map;
    this.means = await this.window([0, rows, 0, columns], [1, columns], signal);
    return this;
  }

  get label() {
    const { map, index } = this;
    return `${map.name} · ${index === null ? `mean of ${map.total} heads` : headName(map, 0)}`;
  }

  mean() {
    return this.means;
  }

  /** What a query looks at: [key]; null where it has not arrived. */
  row(query) {
    return this.kept.get(`q${query}`) ?? null;
  }

  /** What looks at a span of keys, the sum over them: [query]; null where it has not arrived. */
  sumColumn({ begin, end }) {
    return this.kept.get(`k${begin}-${end}`) ?? null;
  }

  /**
   * Fetch the row of a query, or else the sum over a span of keys. Returns null where it is here; otherwise a promise:
   * false where something else was wanted before it arrived.
   */
  fetch(query, span) {
    const { rows, columns } = this.map;
    this.wanted?.abort();
    if (query === null && !span) return null;
    const name = query === null ? `k${span.begin}-${span.end}` : `q${query}`;
    if (this.kept.has(name)) return null;
    const { signal } = (this.wanted = new AbortController());
    const [window, most] =
      query === null
        ? [[0, rows, span.begin, span.end], [rows, 1]]
        : [[query, query + 1, 0, columns], [1, columns]];
    return this.window(window, most, signal).then(
      (found) => {
        if (query === null) found.forEach((each, at) => (found[at] = each * (span.end - span.begin)));
        this.kept.set(name, found);
        if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
        return true;
      },
      (error) => {
        if (error.name === "AbortError") return false;
        throw error;
      },
    );
  }
}
