// The page: one pane, or two that are compared; the address, the theme and the menu.

import { readAddress, takeKey, writeAddress } from "./address.js";
import { Client, Problem, Recorded } from "./client.js";
import { element, setTheme } from "./dom.js";
import { HeadView } from "./headview.js";
import { Head } from "./maps.js";
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

/** Show the first pane's weights minus the second's, where both have the same entries. */
function showDifference() {
  const [a, b] = panes.map((each) => each.head);
  at("difference").hidden = !(a && b);
  if (!a || !b) return;
  const isSame =
    a.map.rows === b.map.rows &&
    a.map.columns === b.map.columns &&
    a.map.isNested === b.map.isNested &&
    a.map.key.kind === b.map.key.kind;
  const isKept = a.isKept || b.isKept;
  at("difference-note").textContent = isKept
    ? "Heads of texts this long are shown beside each other without their difference."
    : isSame
    ? "The weights of the first minus those of the second: blue where the first looks more, orange where it looks less. Words are those of the first."
    : `There is no difference of these maps: one is ${a.map.rows} × ${a.map.columns}, the other ${b.map.rows} × ${b.map.columns}.`;
  at("difference-view").replaceChildren();
  if (!isSame || isKept) return;
  const map = {
    ...a.map,
    heads: [0],
    total: 1,
    headNames: undefined,
    values: a.values.map((value, place) => value - b.values[place]),
    signed: true,
    isShare: false,
    equal: null,
    name: `${a.label} − ${b.label}`,
  };
  new HeadView(at("difference-view"), () => {}).show(
    new Head(map, 0),
    { ...panes[0].explorer.state, joined: false, window: null },
    { picture: panes[0].picture, levels: null },
  );
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
