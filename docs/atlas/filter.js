// Filters the table of the atlas by state and facets: a choice for each column, and a search in ids and names.
"use strict";
(() => {
  const place = document.getElementById("atlas-filter");
  const table = [...document.querySelectorAll("table")].find((each) => each.tHead?.rows[0].cells[0].textContent === "id");
  if (!place || !table) return;
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, cells: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const wanted = new Map();
  const count = document.createElement("output");
  const show = () => {
    let shown = 0;
    for (const { row, cells } of rows) {
      const fits = [...wanted].every(([column, value]) =>
        !value || (column === 1
          ? `${cells[0]} ${cells[1]}`.toLowerCase().includes(value)
          : cells[column].split(", ").includes(value)));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  const add = (column, control, label) => {
    const around = document.createElement("label");
    around.style.cssText = "display:inline-block;margin:0 .8em .4em 0";
    control.style.cssText = "font:inherit;color:inherit;background:transparent;border:1px solid #868e96;border-radius:3px;padding:2px";
    control.addEventListener("input", () => { wanted.set(column, column === 1 ? control.value.toLowerCase() : control.value); show(); });
    around.append(`${label} `, control);
    place.append(around);
  };
  const search = document.createElement("input");
  search.type = "search";
  add(1, search, "name");
  for (let column = 2; column < heads.length; column += 1) {
    const select = document.createElement("select");
    select.append(new Option("any", ""));
    const values = new Set(rows.flatMap(({ cells }) => cells[column].split(", ")));
    for (const value of [...values].sort()) select.append(new Option(value, value));
    add(column, select, heads[column]);
  }
  place.append(count);
  show();
})();
