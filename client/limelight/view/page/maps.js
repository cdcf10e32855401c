// Attention maps of an answer: from a message to heads that give rows, columns and means.

import { Problem } from "./client.js";

// Scores of positions that cannot be looked at: the lowest number.
const IMPOSSIBLE = -1e30;
const MOST_VALUES = 2 ** 28; // of a matrix that is made of edges

/** Read an AttentionMap. Weights become [head, query, key]; NaN where nothing can be looked at. Throws Problem for a bad one. */
export function readMap(message, axes) {
  const [query, key] = [axes.get(message.queryLabels), axes.get(message.keyLabels)];
  const bad = (why) => new Problem(`The map ${message.name} cannot be drawn: ${why}.`);
  if (!query || !key || !message.weights?.values) throw bad("it has no weights or no labels");
  const heads = message.headReduction ? [0] : (message.heads ?? [0]);
  const [rows, columns] = [message.queries?.length || query.size, message.keys?.length || key.size];
  if (heads.length * rows * columns > MOST_VALUES) throw bad(`it has ${heads.length} × ${rows} × ${columns} weights`);
  const values = message.queryIndex
    ? dense(message, heads.length, rows, columns)
    : rectangular(message, heads.length, rows, columns);
  if (!values)
    throw bad(`its weights are [${message.weights.shape}], and its labels ${heads.length} × ${rows} × ${columns}`);
  let present = 0;
  for (const each of values) {
    if (Math.abs(each) === Infinity || (Number.isNaN(each) && !message.queryIndex))
      throw bad("it has weights that are not numbers");
    if (!Number.isNaN(each)) present += 1;
  }
  const isNested = Boolean(key.parent) && key.parent === query.name && key.parents.length > 0;
  const isShare = Boolean(message.normalised) && !message.signed;
  const isScores = message.quantity === "QUANTITY_SCORES";
  if (isScores) values.forEach((each, at) => each <= IMPOSSIBLE && (values[at] = NaN));
  return {
    name: message.name,
    heads,
    isMean: Boolean(message.headReduction),
    total: message.heads?.length ?? 1,
    query,
    key,
    rows,
    columns,
    values,
    signed: Boolean(message.signed) || isScores,
    headNames: message.headLabels ? axes.get(message.headLabels)?.texts : undefined,
    isNested, // keys lie in queries: words in sentences
    isShare,
    // The weight of an entry if all that a query can look at had the same, on average; null for what is no share.
    equal: isShare && !isNested && present ? (heads.length * rows) / present : null,
  };
}

/** Mean over the features of multi-dimensional attention, times the scale of a row. */
function valueAt({ weights, scales }, place, features, row) {
  let sum = 0;
  for (let feature = 0; feature < features; feature += 1) sum += weights.values[place * features + feature];
  return (sum / features) * (scales ? scales.values[row] : 1);
}

function rectangular(message, heads, rows, columns) {
  const features = message.weights.shape.length === 4 ? Number(message.weights.shape[3]) : 1;
  const size = heads * rows * columns;
  if (message.weights.values.length !== size * features) return null;
  const found = new Float32Array(size);
  for (let place = 0; place < size; place += 1)
    found[place] = valueAt(message, place, features, Math.floor(place / columns));
  return found;
}

function dense(message, heads, rows, columns) {
  const edges = message.queryIndex.values.length;
  const features = message.weights.shape.length === 3 ? Number(message.weights.shape[2]) : 1;
  if (message.weights.values.length !== heads * edges * features) return null;
  const found = new Float32Array(heads * rows * columns).fill(NaN);
  for (let edge = 0; edge < edges; edge += 1) {
    const [query, key] = [message.queryIndex.values[edge], message.keyIndex.values[edge]];
    if (query >= rows || key >= columns) return null;
    for (let head = 0; head < heads; head += 1) {
      const row = head * rows + query;
      found[row * columns + key] = valueAt(message, head * edges + edge, features, row);
    }
  }
  return found;
}

/** One head of a map, or the mean of all (index null). */
export class Head {
  constructor(map, index) {
    const size = map.rows * map.columns;
    Object.assign(this, { map, index, values: map.values.subarray((index ?? 0) * size, ((index ?? 0) + 1) * size) });
    if (index === null && map.heads.length > 1) {
      this.values = this.values.map(
        (_, at) => map.heads.reduce((sum, _head, head) => sum + map.values[head * size + at], 0) / map.heads.length,
      );
    }
  }

  get label() {
    const { map, index } = this;
    if (map.total < 2 && !map.headNames) return map.name;
    return `${map.name} · ${index === null || map.isMean ? `mean of ${map.total} heads` : headName(map, index)}`;
  }

  /** What a query looks at: [key]. */
  row(query) {
    return this.values.subarray(query * this.map.columns, (query + 1) * this.map.columns);
  }

  /** What looks at a key: [query]. */
  column(key) {
    const { rows, columns } = this.map;
    return Float32Array.from({ length: rows }, (_, query) => this.values[query * columns + key]);
  }

  /** The mean over queries: [key]. A missing edge counts as 0; a key without an edge is NaN. */
  mean() {
    const { rows, columns } = this.map;
    const sums = new Float32Array(columns).fill(NaN);
    this.values.forEach((value, at) => {
      if (!Number.isNaN(value)) sums[at % columns] = (sums[at % columns] || 0) + value;
    });
    return sums.map((sum) => sum / rows);
  }
}

/** Whether the keys of a map lie in its queries: words in sentences. info: of the description. */
export function isNested({ labelSets }, { queryLabels, keyLabels }) {
  return Boolean(queryLabels) && labelSets.find((each) => each.name === keyLabels)?.parent === queryLabels;
}

/** The map that weighs the queries of a nested map, as sentences for words; undefined for none. */
export function levelAbove(description, info) {
  const isAbove = (each) => each.keyLabels === info.queryLabels && each !== info;
  return isNested(description, info) ? description.maps.find(isAbove) : undefined;
}

export function headName(map, index) {
  return map.headNames?.[map.heads[index]] ?? `head ${map.heads[index]}`;
}

/** The weight of a unit of several entries: their sum; for signed values, and on request, their mean. */
export function weightOf({ begin, end }, weights, isMean) {
  if (end - begin === 1) return weights[begin];
  let sum = 0;
  for (let entry = begin; entry < end; entry += 1) sum += weights[entry];
  return isMean ? sum / (end - begin) : sum;
}

/** Weights of a head by units: [query unit, key unit]. A query unit has the mean of its entries. */
export function unitWeights(head, queries, keys) {
  const { rows, columns, signed } = head.map;
  if (queries.length === rows && keys.length === columns) return head.values;
  const found = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => {
    const mean = meanRow(head, query);
    for (let key = 0; key < keys.length; key += 1) found[row * keys.length + key] = weightOf(keys[key], mean, signed);
  });
  return found;
}

/** What a query unit looks at: [key], the mean of its entries. */
export function meanRow(head, { begin, end }) {
  if (end - begin === 1 || head.isKept) return head.row(begin);
  const rows = Array.from({ length: end - begin }, (_, place) => head.row(begin + place));
  return rows[0].map((_, key) => rows.reduce((sum, row) => sum + row[key], 0) / rows.length);
}

/** What looks at a key unit: [query], the sum of its entries; for signed values their mean. */
export function sumColumn(head, { begin, end }) {
  if (head.isKept) return head.sumColumn({ begin, end });
  const columns = Array.from({ length: end - begin }, (_, place) => head.column(begin + place));
  return columns[0].map(
    (_, query) => columns.reduce((sum, column) => sum + column[query], 0) / (head.map.signed ? columns.length : 1),
  );
}

/**
 * Numbers by which heads are sorted, of a map that may be pooled: for each head entropy, distance, special and pinned;
 * null where a number has no meaning. span: pinned keys { axis, begin, end }, or null.
 */
export function statistics(map, axes, span = null) {
  const { key, query, rows, columns } = map;
  const [keys, queries] = [spans(key), spans(query)];
  const whole = key.kind === "ranges" ? axes.get(key.parent) : key;
  const total = keys.at(-1)?.end ?? 0;
  const isSelf = nameOf(query) === nameOf(key) && !key.grid && !whole?.grid && whole?.kind !== "nodes";
  const special = keys.map(({ begin, end }) => {
    let count = 0;
    for (let entry = begin; entry < end; entry += 1) count += whole?.isSpecial(entry) ? 1 : 0;
    return count / (end - begin);
  });
  const isPinned = span !== null && span.axis === nameOf(key);
  const pinned = keys.map(({ begin, end }) =>
    isPinned ? Math.max(0, Math.min(end, span.end) - Math.max(begin, span.begin)) / (end - begin) : 0,
  );
  return map.heads.map((_, head) => {
    const sums = { mass: 0, entropy: 0, distance: 0, special: 0, pinned: 0 };
    for (let at = 0; at < rows * columns; at += 1) {
      const [from, to] = [queries[Math.floor(at / columns)], keys[at % columns]];
      const size = to.end - to.begin;
      // A pooled cell is a mean: its share of a row is the mean times its keys.
      const share = map.values[head * rows * columns + at] * size;
      const mass = share * (from.end - from.begin);
      if (!(mass > 0)) continue;
      sums.mass += mass;
      sums.entropy -= mass * Math.log(share / size);
      sums.distance += mass * Math.abs((to.begin + to.end - from.begin - from.end) / 2);
      sums.special += mass * special[at % columns];
      sums.pinned += mass * pinned[at % columns];
    }
    const mean = (value, hasMeaning) => (map.isShare && sums.mass && hasMeaning ? value / sums.mass : null);
    return {
      entropy: mean(sums.entropy / Math.log(total), total > 1),
      distance: mean(sums.distance, isSelf),
      special: mean(sums.special, special.some(Boolean)),
      pinned: mean(sums.pinned, isPinned),
    };
  });
}

function nameOf(axis) {
  return axis.kind === "ranges" ? axis.parent : axis.name;
}

function spans(axis) {
  const isPooled = axis.kind === "ranges";
  return Array.from({ length: axis.size }, (_, place) =>
    isPooled ? { begin: axis.starts[place], end: axis.ends[place] } : { begin: place, end: place + 1 },
  );
}
