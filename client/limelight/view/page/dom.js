// Making elements. Texts become text nodes, whatever they hold.

/** Make an element. children: elements and texts. attributes: `onclick` and such are listeners. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

/** Make a canvas of a size in CSS pixels that is sharp on this screen; gives its context. */
export function sharpen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

let shown = "light";

/** The theme in which things are drawn: "light" or "dark". */
export function theme() {
  return shown;
}

export function setTheme(name) {
  shown = name;
}

/** Fill a select: [value, text] each. */
export function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
}
