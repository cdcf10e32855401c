// Two answers beside each other: what can be compared of them, whatever their lengths.

import { headline, percent, probabilityOf } from "./answer.js";
import { Axis } from "./axes.js";
import { element } from "./dom.js";
import { HeadView } from "./headview.js";
import { Head, statistics, unitWeights } from "./maps.js";
import { number } from "./scale.js";

const MOST_CLASSES = 5;
const PARTS = 8; // of an axis without common entries
const LEAST_IN_BOTH = 0.25; // of the entries of the shorter text, else they are chance
const MOST_PAIRS = 2 ** 22; // of entries among which common ones are looked for
const MEASURES = {
  entropy: "evenness of the weights",
  distance: "distance of the weight",
  special: "weight on special tokens",
};
const COLOURS =
  "The weights of the first minus those of the second: blue where the first looks more, orange where it looks less.";

/** Show what two panes have in common, in the parts of a section: answers, note, view. */
export function showComparison(parts, first, second) {
  const panes = [first, second];
  const answers = panes.map(({ answer, sequence }) => ({ prediction: answer.prediction, sequence }));
  parts.answers.replaceChildren(table(["first", "second"], [...answersOf(answers), ...measuresOf(panes)]));
  parts.view.replaceChildren();
  parts.note.textContent = "";
  if (!panes.every((each) => each.head)) return;
  const { map, note } = differenceOf(panes);
  parts.note.textContent = note;
  if (!map) return;
  const { log } = first.explorer.state;
  const options = { log, joined: false, special: true, window: null, q: null, k: null, to: null };
  const beside = { picture: first.picture, objects: null, levels: null };
  new HeadView(parts.view, () => {}).show(new Head(map, 0), options, beside);
}

/** The predictions of two answers with these names, each { prediction, sequence: its text }. */
export function answerTable(names, answers) {
  return table(names, answersOf(answers));
}

function table(names, rows) {
  const head = ["", ...names, "difference"].map((each) => element("th", { scope: "col" }, each));
  const body = rows.map(([name, ...cells]) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((each) => element("td", {}, each))),
  );
  return element("table", { class: "compared" }, element("tr", {}, ...head), ...body);
}

/** A number of both, and the first minus the second; format: for people. */
function row(name, values, format = number, points = format) {
  const isKnown = values.every((each) => each !== undefined);
  const [size, isLess] = isKnown ? [Math.abs(values[0] - values[1]), values[0] < values[1]] : [0, false];
  const text = size ? points(size) : isKnown ? "none" : "";
  const difference = /^\d/.test(text) ? `${isLess ? "−" : "+"}${text}` : text;
  return [name, ...values.map((each) => (each === undefined ? "–" : format(each))), difference];
}

function pointsOf(size) {
  return size < 0.0005 ? "under 0.1 points" : `${(100 * size).toFixed(1)} points`;
}

/** Rows for the predictions: their values where both are of a kind. */
function answersOf(answers) {
  const results = answers.map(({ prediction }) => prediction.results?.[0] ?? {});
  const both = (kind) => results.every((each) => each[kind]) && results.map((each) => each[kind]);
  const pairs = (lists, nameOf, valueOf) => {
    const values = lists.map((list = []) => new Map(list.map((each) => [nameOf(each), valueOf(each)])));
    const names = new Set(values.flatMap((each) => [...each.keys()].slice(0, MOST_CLASSES)));
    return [...names].map((name) => [name, values.map((each) => each.get(name))]);
  };
  const classes = both("classification");
  if (classes) {
    const lists = classes.map((each) => each.classes);
    const found = pairs(lists, ({ label = "" }) => label, ({ probability = 0 }) => probability);
    return found.map(([name, values]) => row(name, values, percent, pointsOf));
  }
  const numbers = both("regression");
  if (numbers) {
    const lists = numbers.map((each) => each.numbers);
    const found = pairs(lists, ({ name = "" }) => name, ({ value = 0 }) => value);
    return found.map(([name, values]) => row(name, values));
  }
  const texts = both("sequences");
  if (texts) {
    const chosen = texts.map(({ sequences = [] }, place) => sequences[answers[place].sequence] ?? {});
    const [a, b] = chosen.map(({ text }) => text || "(an empty text)");
    const isSame = a === b ? "the same text" : "";
    return [["text", a, b, isSame], row("probability", chosen.map(probabilityOf), percent, pointsOf)];
  }
  const vectors = both("embedding")?.map?.(({ vector }) => vector?.values);
  if (vectors?.every((each) => each?.length === vectors[0].length)) {
    const dot = (a, b) => a.reduce((sum, each, place) => sum + Number(each) * Number(b[place]), 0);
    const [a, b] = vectors;
    return [["vector", "", "", `cosine ${number(dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)))}`]];
  }
  return [["answer", ...answers.map(({ prediction }) => headline(prediction) || "–"), ""]];
}

/** Rows for how evenly and how far the open heads look, which texts of any length have. */
function measuresOf(panes) {
  if (panes.some(({ head }) => !head || head.isKept)) return [];
  const found = panes.map(({ head, axes }) => {
    const all = statistics(head.map, axes);
    return head.index === null ? all : [all[head.index] ?? all[0]];
  });
  const isKnown = (name) => found.every(([first]) => first[name] !== null);
  const mean = (all, name) => all.reduce((sum, each) => sum + each[name], 0) / all.length;
  return Object.keys(MEASURES)
    .filter(isKnown)
    .map((name) =>
      row(
        MEASURES[name],
        found.map((all) => mean(all, name)),
      ),
    );
}

/** The difference of the open heads as a map, and a note on it; map: null where there is none. */
function differenceOf(panes) {
  if (panes.some(({ head }) => head.isKept))
    return { map: null, note: "Heads of texts this long are shown beside each other without their difference." };
  const [a, b] = panes.map(({ head }) => head);
  if (
    a.map.rows === b.map.rows &&
    a.map.columns === b.map.columns &&
    a.map.isNested === b.map.isNested &&
    a.map.key.kind === b.map.key.kind
  ) {
    const values = a.values.map((value, place) => value - b.values[place]);
    const map = signed(a.map, values, `${a.label} − ${b.label}`);
    return { map, note: `${COLOURS} Words are those of the first.` };
  }
  return alignedOf(panes);
}

function thingsOf({ head }) {
  return `${head.map.query.name} over ${head.map.key.name}`;
}

function signed(map, values, name) {
  const others = { heads: [0], total: 1, headNames: undefined, signed: true, isShare: false, equal: null };
  return { ...map, ...others, name, values: Float32Array.from(values) };
}

/** The difference between what is in both texts, or between parts of them where nothing is. */
function alignedOf(panes) {
  const sides = panes.map(({ head, explorer }) => flat(head, explorer.levels, explorer.state));
  const [queries, keys] = ["queries", "keys"].map((name) => aligned(...sides.map((each) => each[name])));
  if (!queries || !keys)
    return { map: null, note: `These maps are of different things: ${panes.map(thingsOf).join(", and ")}.` };
  const values = sides.map(({ weights, keys: { units }, isMean }, side) =>
    queries.groups[side].flatMap((down) =>
      keys.groups[side].map((across) => {
        let sum = 0;
        for (const query of down) for (const key of across) sum += weights[query * units.length + key] || 0;
        return sum / down.length / (isMean ? across.length : 1);
      }),
    ),
  );
  const [rows, columns] = [queries.axis.size, keys.axis.size];
  const differences = values[0].map((value, place) => value - values[1][place]);
  const axes = { query: queries.axis, key: keys.axis, rows, columns, isNested: false };
  const map = signed(axes, differences, "difference");
  const notes = [...new Set([queries.note, keys.note]), COLOURS];
  if (keys.isPart && sides.every((each) => each.isShare)) {
    const [a, b] = values.map((each) => number(each.reduce((sum, value) => sum + value, 0) / rows));
    notes.push(`In the first ${a} of the weight is there, in the second ${b}.`);
  }
  return { map, note: notes.filter(Boolean).join(" ") };
}

/** A head as weights of units; words inside lines as one row: the weight of a word times that of its line. */
function flat(head, levels, { joined, special }) {
  const { map } = head;
  const keys = { axis: map.key, units: map.key.units({ joined, special }) };
  const kind = { isShare: map.isShare, isMean: map.signed };
  if (!map.isNested) {
    const queries = { axis: map.query, units: map.query.units({ joined, special }) };
    return { ...kind, queries, keys, weights: unitWeights(head, queries.units, keys.units) };
  }
  const weights = keys.units.map(({ begin, end }) => {
    const line = map.key.parents[begin];
    const inside = head.row(line).subarray(begin, end);
    return inside.reduce((sum, each) => sum + (each || 0), 0) * (levels?.[line] ?? 1);
  });
  const whole = new Axis({ name: "document", kind: "LABEL_KIND_ONE", size: 1 }, new Map());
  return { ...kind, queries: { axis: whole, units: whole.units({}) }, keys, weights };
}

/**
 * Groups of units of two axes that belong together: { groups: [first, second] each [[unit]], axis, note, isPart: whether
 * some units are in none }; or null.
 */
function aligned(first, second) {
  const [n, m] = [first.units.length, second.units.length];
  const { name, kind, grid } = first.axis;
  if (kind !== second.axis.kind) return null;
  const singles = (places) => places.map((place) => [place]);
  const all = range(0, n);
  if (grid || second.axis.grid) {
    const isSame = ["rows", "columns"].every((side) => grid?.[side] === second.axis.grid?.[side]) && n === m;
    return isSame ? { groups: [singles(all), singles(all)], axis: first.axis, note: "" } : null;
  }
  if (n === 1 && m === 1) return { groups: [[[0]], [[0]]], axis: first.axis, note: "" };
  const [a, b] = [first, second].map(({ units }) => units.map(({ text }) => text));
  const named = (texts) =>
    new Axis({ name, kind: `LABEL_KIND_${kind.toUpperCase()}`, size: texts.length, texts }, new Map());
  if (n === m) {
    const texts = a.map((text, place) => (text === b[place] ? text : `${text} | ${b[place]}`));
    const note = `The entries of ${name} are compared in their order.`;
    return { groups: [singles(all), singles(all)], axis: named(texts), note };
  }
  const pairs = n * m <= MOST_PAIRS ? common(a, b) : [];
  if (pairs.length >= LEAST_IN_BOTH * Math.min(n, m)) {
    const groups = [0, 1].map((side) => singles(pairs.map((pair) => pair[side])));
    const note = `Of ${name}, ${pairs.length} of ${n} and ${m} are in both, in this order.`;
    return { groups, axis: named(pairs.map(([place]) => a[place])), note, isPart: true };
  }
  const parts = range(0, Math.min(PARTS, n, m));
  const end = (part, count) => Math.floor((part * count) / parts.length);
  const cut = (count) => parts.map((part) => range(end(part, count), end(part + 1, count)));
  const note = `Of ${name} little is in both: each is cut into ${parts.length} equal parts.`;
  return { groups: [cut(n), cut(m)], axis: named(parts.map((part) => `part ${part + 1}`)), note };
}

function range(from, to) {
  return Array.from({ length: to - from }, (_, place) => from + place);
}

/** A longest common subsequence of two lists of texts, without blanks: [place in one, place in the other] each. */
function common(...lists) {
  const [first, second] = lists.map((texts) => texts.map((each) => each.trim()));
  const wide = second.length + 1;
  const lengths = new Uint16Array((first.length + 1) * wide);
  for (let a = first.length - 1; a >= 0; a -= 1) {
    for (let b = second.length - 1; b >= 0; b -= 1) {
      const [down, across] = [lengths[(a + 1) * wide + b], lengths[a * wide + b + 1]];
      lengths[a * wide + b] = first[a] === second[b] ? lengths[(a + 1) * wide + b + 1] + 1 : Math.max(down, across);
    }
  }
  const pairs = [];
  for (let [a, b] = [0, 0]; a < first.length && b < second.length; ) {
    if (first[a] === second[b] && first[a]) pairs.push([a, b]);
    if (first[a] === second[b]) [a, b] = [a + 1, b + 1];
    else if (lengths[(a + 1) * wide + b] >= lengths[a * wide + b + 1]) a += 1;
    else b += 1;
  }
  return pairs;
}
