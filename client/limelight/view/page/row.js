// The row of the atlas that a model is: its name there, its formula, and its papers.

import { ROWS, TITLES } from "./atlas.js";
import { element } from "./dom.js";

/** The key of a description in TITLES: its paper's title, or the name of a mechanism, which cites none. */
function keyOf({ title = "", citation }) {
  return citation?.title ? citation.title.toLowerCase().replace(/[^a-z0-9]/g, "") : ` ${title}`;
}

/** What the atlas says of a model, folded; nothing of one that it does not know. */
export function aboutRow(description) {
  const row = TITLES[keyOf(description)];
  if (!row) return [];
  const [name, formulas, papers] = ROWS[row];
  const attributes = { target: "_blank", rel: "noreferrer" };
  const cited = ([text, href]) => (href ? element("a", { href, ...attributes }, text) : text);
  return [
    element(
      "details",
      { class: "row" },
      element("summary", { class: "hint" }, `In the atlas of attention: ${name}`),
      ...formulas.flatMap((each) => each.split(/;\s{2,}/).map((line) => element("p", {}, element("code", {}, line)))),
      ...papers.map((each) => element("p", { class: "hint" }, cited(each))),
    ),
  ];
}
