// A prediction as a person reads it: the results, each with how sure the model is.

import { element } from "./dom.js";
import { number } from "./scale.js";

const MOST_CLASSES = 5;
const MOST_TAGS = 200;

/** Elements for the results of a prediction. chosen: the text whose maps are shown; onchoose(text): of several. */
export function resultsOf(prediction, axes, chosen, onchoose) {
  const results = (prediction.results ?? []).map((each) => resultOf(each, axes, chosen, onchoose));
  if (!results.length) {
    const outputs = Object.entries(prediction.outputs ?? {}).map(
      ([name, { shape }]) => `${name} [${shape.join(", ")}]`,
    );
    results.push(element("p", {}, `This model has raw outputs only: ${outputs.join(", ") || "none"}.`));
  }
  if (prediction.truncated)
    results.push(element("p", { class: "note" }, "The input was longer than the model reads, and was cut."));
  return results;
}

/** One line: the answer alone, for a title. */
export function headline(prediction) {
  const [first] = prediction.results ?? [];
  const best = first?.classification?.classes?.[0];
  if (best) return `${best.label ?? ""} (${percent(best.probability)})`;
  const sequence = first?.sequences?.sequences?.[0];
  return sequence ? `${sequence.text ?? ""} (${percent(probabilityOf(sequence))})` : "";
}

/** The objects that were found, with their edges in pixels of the picture: a message Boxes; null for none. */
export function objectsOf(prediction) {
  return (prediction.results ?? []).find(({ boxes }) => boxes && !boxes.relative)?.boxes ?? null;
}

/** Entries of an answer that can be explained alone, as the objects that were found: [index, text] each. */
export function entriesOf(prediction, { results }, axes) {
  const found = (prediction.results ?? []).find(({ boxes }) => boxes)?.boxes.boxes;
  if (found) return found.map(({ query = 0, label }) => [query, label]);
  const labelSet = results.map(({ sequence, classes }) => (sequence ?? classes)?.labelSet).find(Boolean);
  return (axes.get(labelSet)?.texts ?? []).map((text, place) => [place, text]);
}

/** An answer with the maps of one of its texts: those that do not depend on a text are the same for all. */
export function ofSequence(answer, index) {
  const other = answer.otherSequences?.find(({ sequence = 0 }) => sequence === index);
  if (!other) return answer;
  const merged = (all = [], own = []) => all.map((each) => own.find(({ name }) => name === each.name) ?? each);
  const labelSets = merged(answer.prediction.labelSets, other.labelSets);
  return { ...answer, maps: merged(answer.maps, other.maps), prediction: { ...answer.prediction, labelSets } };
}

/** Where an answer is from, and how long it took. */
export function originOf(prediction) {
  const { model, provider, computeNanoseconds, cached } = prediction.provenance ?? {};
  const computed = computeNanoseconds ? `, ${number(Number(computeNanoseconds) / 1e6)} ms of computing` : "";
  const time = cached ? ", kept by the server" : computed;
  return `${model?.name ?? ""} version ${model?.version ?? ""}, ${provider ?? ""}${time}`;
}

function resultOf(result, axes, chosen, onchoose) {
  const content =
    (result.classification && classes(result.classification.classes ?? [])) ??
    (result.sequences && sequences(result.sequences.sequences ?? [], chosen, onchoose)) ??
    (result.tagging && tags(result.tagging, axes)) ??
    (result.spans && spans(result.spans)) ??
    (result.regression && numbers(result.regression.numbers ?? [])) ??
    (result.boxes && boxes(result.boxes.boxes ?? [])) ??
    (result.embedding && [
      element("p", {}, `A vector of ${result.embedding.vector?.shape?.join(" × ") ?? 0} numbers.`),
    ]);
  return element("div", { class: "result" }, element("span", { class: "hint" }, result.name ?? ""), ...(content ?? []));
}

function bar(text, probability) {
  const fill = element("span", { class: "fill" });
  fill.style.width = `${100 * (probability ?? 0)}%`;
  return element(
    "div",
    { class: "bar" },
    fill,
    element("span", { class: "what" }, text),
    element("span", { class: "sure" }, percent(probability)),
  );
}

function classes(found) {
  const more = found.length - MOST_CLASSES;
  const rows = found.slice(0, MOST_CLASSES).map((each) => bar(each.label ?? "", each.probability));
  return more > 0 ? [...rows, element("p", { class: "hint" }, `and ${more} more`)] : rows;
}

function sequences(found, chosen, onchoose) {
  return found.flatMap((each, place) => {
    const text = each.text || "(an empty text)";
    const attributes = { type: "button", class: "text", "aria-pressed": String(place === chosen) };
    const button = element("button", { ...attributes, onclick: () => onchoose(place) }, text);
    return [
      element("p", { class: "headline" }, found.length > 1 ? button : text),
      element("p", { class: "hint" }, `probability of the whole text: ${percent(probabilityOf(each))}`),
    ];
  });
}

function tags(tagging, axes) {
  const axis = axes.get(tagging.labelSet);
  const per = tagging.classesPerEntry ?? 1;
  const total = (tagging.labels ?? []).length / per;
  const chips = Array.from({ length: Math.min(total, MOST_TAGS) }, (_, row) => {
    const entry = tagging.selected ? tagging.entries[row] : row;
    return element(
      "span",
      { class: "tag" },
      axis?.texts[entry] ?? "",
      element("small", {}, ` ${tagging.labels[row * per]} ${percent(tagging.probabilities[row * per])}`),
    );
  });
  const best = (tagging.labels ?? []).filter((_, place) => place % per === 0);
  return [
    ...(axis?.kind === "places" ? [element("p", { class: "headline" }, best.join(" "))] : []),
    element("p", { class: "tags" }, ...chips, total > MOST_TAGS ? ` and ${total - MOST_TAGS} more` : ""),
  ];
}

/** Numbers with their names; those of rows and columns as the picture that a model draws: the least black, the largest white. */
function numbers(found) {
  const places = found.map(({ name }) => /^row (\d+), column (\d+)$/.exec(name ?? "")?.slice(1).map(Number));
  if (!found.length || !places.every(Boolean))
    return found.map((each) =>
      element("p", { class: "headline" }, `${each.name ?? ""}: ${number(each.value ?? 0)} ${each.unit ?? ""}`),
    );
  const [rows, columns] = [0, 1].map((axis) => Math.max(...places.map((each) => each[axis])));
  const values = found.map((each) => each.value ?? 0);
  const [least, largest] = [Math.min(...values), Math.max(...values)];
  const label = `${rows} × ${columns} numbers from ${number(least)}, black, to ${number(largest)}, white`;
  const canvas = element("canvas", { class: "drawn", width: columns, height: rows, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  places.forEach(([row, column], at) => {
    context.fillStyle = `rgb(${Array(3).fill((255 * (values[at] - least)) / (largest - least || 1))})`;
    context.fillRect(column - 1, row - 1, 1, 1);
  });
  return [canvas, element("p", { class: "hint" }, label)];
}

function spans({ spans: found = [], noneProbability }) {
  const rows = found.map((each) => bar(each.text ?? "", each.probability));
  return noneProbability === undefined ? rows : [...rows, bar("(no answer)", noneProbability)];
}

function boxes(found) {
  return found.length
    ? found.map((each) => bar(each.label ?? "", each.probability))
    : [element("p", {}, "No object was found.")];
}

/** The probability of a whole text. */
export function probabilityOf(sequence) {
  return Math.exp((sequence.logProbabilities ?? []).reduce((sum, each) => sum + Number(each), 0));
}

/** A probability for people. */
export function percent(value = 0) {
  if (value > 0.999 && value < 1) return "> 99.9 %";
  return value > 0 && value < 0.001 ? "< 0.1 %" : `${Number((100 * value).toFixed(1))} %`;
}
