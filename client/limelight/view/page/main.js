// The page: one pane, or two that are compared; the address, the theme and the menu.

import { readAddress, takeKey, writeAddress } from "./address.js";
import { Client, Problem, Recorded } from "./client.js";
import { showComparison } from "./compare.js";
import { element, setTheme } from "./dom.js";
import { Pane } from "./pane.js";
import { saveMenu } from "./save.js";

const SECOND = "b."; // before the names of the second pane's selection
const at = (id) => document.getElementById(id);
const panes = [];
let client;
let models;
let isRestoring = false;

function applyTheme(name) {
  setTheme(name);
  document.documentElement.dataset.theme = name;
  at("theme").textContent = name === "dark" ? "Light" : "Dark";
  for (const each of panes) each.repaint();
  showDifference();
}

/** The theme that somebody chose here, or the system's. */
function theme() {
  return (
    localStorage.getItem("limelight-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
  );
}

function write() {
  if (isRestoring) return;
  const [first, second = {}] = panes.map((each) => each.selection());
  writeAddress({
    ...first,
    ...Object.fromEntries(Object.entries(second).map(([name, value]) => [SECOND + name, value])),
  });
  showDifference();
}

async function restore() {
  const [first, second] = [{}, {}];
  for (const [name, value] of Object.entries(readAddress())) {
    if (name.startsWith(SECOND)) second[name.slice(SECOND.length)] = value;
    else first[name] = value;
  }
  isRestoring = true;
  await panes[0].select(first);
  await setSecond(Object.keys(second).length ? second : null);
  isRestoring = false;
  write();
}

function addPane() {
  const pane = new Pane(client, models, write);
  panes.push(pane);
  at("panes").append(pane.root);
}

/** Show a second pane with a selection, or none. */
async function setSecond(selection) {
  document.body.classList.toggle("comparing", Boolean(selection));
  at("compare").textContent = selection ? "Stop comparing" : "Compare";
  if (!selection) panes.splice(1).forEach((each) => each.root.remove());
  else {
    if (panes.length < 2) addPane();
    panes[0].repaint(); // it has half the width
    await panes[1].select(selection);
  }
}

/** Show what can be compared of two panes. */
function showDifference() {
  at("difference").hidden = !panes.every((each) => each.shown) || panes.length < 2;
  if (at("difference").hidden) return;
  const parts = ["answers", "note", "view"].map((name) => [name, at(`difference-${name}`)]);
  showComparison(Object.fromEntries(parts), ...panes);
}

async function start() {
  applyTheme(theme());
  at("theme").onclick = () => {
    localStorage.setItem("limelight-theme", theme() === "dark" ? "light" : "dark");
    applyTheme(theme());
  };
  matchMedia("(prefers-color-scheme: dark)").onchange = () => applyTheme(theme());
  client = "recorded" in document.documentElement.dataset ? new Recorded() : new Client(takeKey());
  try {
    models = await client.models();
    if (!models.length) throw new Problem("This server has no models.");
  } catch (error) {
    at("panes").append(element("p", { class: "problem", role: "alert" }, error.message));
    return;
  }
  addPane();
  at("compare").onclick = async () => {
    await setSecond(panes.length > 1 ? null : panes[0].selection());
    write();
  };
  at("save").append(...saveMenu(() => panes[0]));
  at("tools").hidden = false;
  addEventListener("hashchange", restore);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) panes.forEach((each) => each.repaint());
    width = innerWidth;
  });
  await restore();
  document.body.dataset.ready = "";
}

start();
