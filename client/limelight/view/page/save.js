// Saving what is shown: PNG, SVG, one self-contained HTML file, JSON; and a link to it.

import { headline } from "./answer.js";
import { Problem } from "./client.js";
import { element } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const PADDING = 20;
// What canvases of all browsers hold.
const MOST_SIDE = 16_384;
const MOST_AREA = 2 ** 26;
// Characters that XML does not have: a drawing with one of them is none.
const UNDRAWABLE = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const FONT = "system-ui, 'DejaVu Sans', sans-serif";

/** Buttons of the menu. pane: gives the pane whose explanation and head are saved. */
export function saveMenu(pane) {
  const item = (text, action) =>
    element(
      "button",
      {
        type: "button",
        onclick: async (event) => {
          const menu = event.currentTarget.closest("details");
          try {
            if (pane().head || pane().explanation) await action(pane());
          } catch (error) {
            pane().tell(new Problem(`${text} failed: ${error.message}`));
          } finally {
            menu.open = false;
          }
        },
      },
      text,
    );
  return [
    item("Copy link", () => navigator.clipboard.writeText(location.href)),
    item("PNG", async (each) => {
      const [picture, scale] = await pngOf(each);
      download(picture, name(each, "png"));
      if (scale < 1) {
        const size = `${Math.round(100 * scale)} %`;
        each.tell(new Problem(`The picture is saved at ${size} of its size, which is more than a PNG holds: SVG has all of it.`));
      }
    }),
    item("SVG", (each) => download(blob(svgText(each), "image/svg+xml"), name(each, "svg"))),
    item("HTML, self-contained", (each) => download(blob(htmlOf(each), "text/html"), name(each, "html"))),
    item("JSON", (each) => download(blob(jsonOf(each), "application/json"), name(each, "json"))),
  ];
}

function blob(text, type) {
  return new Blob([text], { type });
}

function name(pane, ending) {
  const stem = `${pane.chosen.name}-${pane.head?.label ?? "why"}`.replace(/[^A-Za-z0-9._-]+/g, "-");
  return `${stem.replace(/^[.-]+/, "").slice(0, 100) || "attention"}.${ending}`;
}

function download(content, file) {
  const url = URL.createObjectURL(content);
  element("a", { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The explanation and the open head as a drawing: words with their shades and canvases, where the page has them. */
function svgOf(pane) {
  const roots = [pane.explanation && pane.why.explained.figures, pane.head && pane.explorer.part.view].filter(Boolean);
  const styles = getComputedStyle(document.body);
  const top = 64;
  const width = Math.ceil(Math.max(...roots.map((each) => each.scrollWidth))) + 2 * PADDING;
  let height = top;
  const svg = node("svg", { xmlns: SVG, "font-family": FONT });
  const paper = node("rect", { fill: styles.backgroundColor });
  svg.append(paper);
  svg.append(node("text", { x: PADDING, y: 28, "font-size": 17, "font-weight": 600, fill: styles.color }, pane.title));
  svg.append(node("text", { x: PADDING, y: 49, "font-size": 13, fill: styles.color }, pane.head?.label ?? ""));
  for (const root of roots) {
    draw(root, svg, height);
    height += Math.ceil(root.getBoundingClientRect().height) + PADDING;
  }
  for (const [side, size] of Object.entries({ width, height })) {
    svg.setAttribute(side, size);
    paper.setAttribute(side, size);
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return svg;
}

/** Draw what an element shows, from a height on. */
function draw(root, svg, top) {
  const box = root.getBoundingClientRect();
  const place = (rect) => ({
    x: rect.left - box.left + PADDING,
    y: rect.top - box.top + top,
    width: rect.width,
    height: rect.height,
  });
  for (const each of root.querySelectorAll("canvas, .unit, .level, .ends, .caption, .readout, .part, .sure, .agreement, .told")) {
    if (each.matches("canvas")) {
      const href = each.toDataURL("image/png");
      if (href === "data:,") continue; // it has no pixels
      svg.append(node("image", { ...place(each.getBoundingClientRect()), href }));
      continue;
    }
    const { backgroundColor, color, fontSize, fontWeight } = getComputedStyle(each);
    if (!/, 0\)$|transparent/.test(backgroundColor)) {
      for (const rect of each.getClientRects())
        svg.append(node("rect", { ...place(rect), rx: 2, fill: backgroundColor }));
    }
    for (const [word, rect] of wordsOf(each)) {
      const { x, y, height: high } = place(rect);
      svg.append(
        node(
          "text",
          { x, y: y + high * 0.77, "font-size": parseFloat(fontSize), "font-weight": fontWeight, fill: color },
          word,
        ),
      );
    }
  }
}

function node(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) if (key !== "xmlns") made.setAttribute(key, value);
  if (text) made.textContent = drawable(text);
  return made;
}

function drawable(text) {
  return text.replace(UNDRAWABLE, "\u{FFFD}");
}

/** Words of an element with the places where the page has them. */
function* wordsOf(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.matches(".hint")) continue; // of use in the page alone
    for (const match of walker.currentNode.data.matchAll(/\S+/g)) {
      range.setStart(walker.currentNode, match.index);
      range.setEnd(walker.currentNode, match.index + match[0].length);
      yield [match[0], range.getBoundingClientRect()];
    }
  }
}

function svgText(pane) {
  return new XMLSerializer().serializeToString(svgOf(pane));
}

/** The drawing as a picture, and its scale: 2, or less where it would be larger than a canvas. */
async function pngOf(pane) {
  const svg = svgOf(pane);
  const [width, height] = ["width", "height"].map((each) => Number(svg.getAttribute(each)));
  const scale = Math.min(2, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_AREA / (width * height)));
  // A picture that is drawn smaller is decoded smaller.
  svg.setAttribute("width", Math.max(1, Math.floor(width * scale)));
  svg.setAttribute("height", Math.max(1, Math.floor(height * scale)));
  const url = URL.createObjectURL(blob(new XMLSerializer().serializeToString(svg), "image/svg+xml"));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return [await canvas.convertToBlob({ type: "image/png" }), scale];
  } finally {
    URL.revokeObjectURL(url);
  }
}

function jsonOf(pane) {
  const { head, explanation } = pane;
  const { prediction: _, ...explained } = explanation ?? {};
  const numbers = (row) => Array.from(row, (each) => (Number.isNaN(each) ? null : each));
  const weightsOf = (map) => {
    const rows = Array.from({ length: map.rows }, (_, query) => query);
    return {
      map: map.name,
      head: head.index === null ? "mean" : map.heads[head.index],
      queries: map.query.texts,
      keys: map.key.texts,
      // Of a long text, the mean over queries, and the rows that were looked at last.
      ...(head.isKept
        ? {
            mean: numbers(head.mean()),
            rows: Object.fromEntries(rows.flatMap((query) => (head.row(query) ? [[query, numbers(head.row(query))]] : []))),
          }
        : { weights: rows.map((query) => numbers(head.row(query))) }),
    };
  };
  const { prediction } = pane.answer;
  const answer = { model: prediction.provenance?.model, inputs: pane.inputs, answer: prediction.results ?? [] };
  const weights = head && weightsOf(head.map);
  return JSON.stringify({ ...answer, ...weights, explanation: explanation ? explained : undefined }, null, 1);
}

/** A page without scripts: the drawing, the answer, and the numbers as JSON. */
function htmlOf(pane) {
  const page = document.implementation.createHTMLDocument(drawable(pane.title));
  page.head.append(
    Object.assign(page.createElement("meta"), { name: "viewport", content: "width=device-width, initial-scale=1" }),
  );
  const body = page.createElement("div");
  body.append(page.importNode(svgOf(pane), true));
  const told = page.createElement("p");
  told.textContent = drawable(`${headline(pane.answer.prediction)} ${pane.part.origin.textContent}`);
  const numbers = page.createElement("script");
  numbers.type = "application/json";
  numbers.textContent = jsonOf(pane).replace(/</g, "\\u003c");
  page.body.append(body, told, ...valuesOf(pane, page), numbers);
  page.documentElement.lang = "en";
  return `<!doctype html>\n<meta charset="utf-8">\n${page.documentElement.outerHTML}`;
}

/** The table of an explanation, without its buttons. */
function valuesOf(pane, page) {
  if (!pane.explanation) return [];
  const table = page.importNode(pane.why.explained.root.querySelector("table"), true);
  for (const each of table.querySelectorAll("th, td")) each.textContent = drawable(each.textContent);
  return [table];
}
