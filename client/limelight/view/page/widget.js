// An answer's maps, or its explanation, in a notebook, as anywidget shows a module: without a server.

import { readAxes } from "./axes.js";
import { told, unpacked } from "./client.js";
import { element, setTheme } from "./dom.js";
import { Explained } from "./explained.js";
import { Explorer } from "./explorer.js";
import { Head, levelAbove, readMap } from "./maps.js";

/** Show the trait `answer` of a widget in an element; css: the page's styles. Returns what takes it away. */
export async function render({ model, el }, css) {
  // Keys that are pressed here are no shortcuts of JupyterLab.
  const host = element("div", { "data-lm-suppress-shortcuts": "true" });
  const root = element("div", { class: "widget" });
  // Styles of the notebook and of the page do not meet.
  host.attachShadow({ mode: "open" }).append(element("style", {}, css), root);
  el.append(host);
  const sent = model.get("answer");
  const answer = unpacked(sent.buffer.slice(sent.byteOffset, sent.byteOffset + sent.byteLength));
  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const view = answer.explanation ? explained(answer) : explorer(answer, problem);
  root.append(element("p", { class: "headline" }, answer.heading), problem, view.root);
  root.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has keys of its own
    if (event.key === "Escape") view.unpin();
  });
  const picture = answer.image ? await createImageBitmap(new Blob([answer.image.values])).catch(() => null) : null;

  // Text that is light has a dark background. Canvases need a width, which an element has once it is on the page.
  let width = 0;
  const observer = new ResizeObserver(async () => {
    if (!root.clientWidth || root.clientWidth === width) return;
    const isFirst = !width;
    width = root.clientWidth;
    const [red, green, blue] = getComputedStyle(el).color.match(/[\d.]+/g).map(Number);
    host.dataset.theme = 0.299 * red + 0.587 * green + 0.114 * blue > 128 ? "dark" : "light";
    setTheme(host.dataset.theme);
    if (isFirst) {
      await view.show(picture);
      host.dataset.ready = "";
    } else view.repaint();
  });
  observer.observe(root);
  return () => observer.disconnect();
}

/** A view of an explanation: { root, show(picture), repaint(), unpin() }. */
function explained({ explanation, texts }) {
  const view = new Explained();
  const sources = new Map(Object.entries(texts).map(([name, text]) => [name, Array.from(text)]));
  const show = (picture) => view.show(explanation, sources, picture);
  return { root: view.root, show, repaint: () => view.repaint(), unpin: () => {} };
}

/** A view of the maps of an answer. */
function explorer(answer, problem) {
  const view = new Explorer(
    () => {},
    (error) => {
      problem.textContent = told(error);
      problem.hidden = false;
    },
  );
  view.select({});
  const axes = readAxes(answer.labelSets, new Map());
  const description = {
    labelSets: answer.labelSets,
    maps: answer.maps.map((each) => ({ ...each, heads: each.headReduction ? 1 : each.heads.length })),
  };
  const maps = new Map(answer.maps.map((each) => [each.name, readMap(each, axes)]));
  const load = async (info) => {
    const level = maps.get(levelAbove(description, info)?.name);
    return { map: maps.get(info.name), levels: level?.rows === 1 ? new Head(level, null).row(0) : null };
  };
  const thumbnails = [...maps.values()];
  const show = (picture) => view.show({ description, thumbnails, axes, picture, objects: answer.objects, load });
  return { root: view.root, show, repaint: () => view.repaint(), unpin: () => view.unpin() };
}
