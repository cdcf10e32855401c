// The page's address: what is selected stands behind `#`, so that a link opens the same view.

/** Read the selection: names and values, both texts. */
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** Write the selection; empty values are left out. replaces: no new entry in the browser's history. */
export function writeAddress(selection, { replaces = true } = {}) {
  const kept = Object.entries(selection).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const hash = `#${new URLSearchParams(kept)}`;
  if (hash === location.hash) return;
  history[replaces ? "replaceState" : "pushState"](null, "", hash);
}

/** Take the key that the printed address has out of the address, and remember it for this page's server alone. */
export function takeKey() {
  const selection = readAddress();
  if (selection.key !== undefined) {
    localStorage.setItem("limelight-key", selection.key);
    delete selection.key;
    writeAddress(selection);
  }
  return localStorage.getItem("limelight-key") ?? "";
}
