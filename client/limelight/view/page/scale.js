// The colour scale: from weights to strengths, and from strengths to colours.
//
// Equal weights have no colour and slightly unequal ones little of it, so that a map that looks everywhere has no
// peaks. One hue whose lightness changes evenly is read with every kind of colour vision; negative values are orange.

import { CONTRAST, OPACITIES, OVER, RAMPS } from "./palette.js";

// On a logarithmic scale, the part of the largest weight that has no colour.
const FLOOR = 1e-4;

export class Scale {
  /**
   * largest: magnitude of the largest value, of one token. equal: the weight of a token if all had the same; null for
   * values that are no shares of a whole.
   */
  constructor({ largest, signed, equal, log }) {
    this.signed = signed;
    this.isRelative = !signed && equal !== null && !log;
    this.high = largest;
    this.low = 0;
    if (this.isRelative) {
      this.low = equal;
      this.high = Math.max(largest, Math.min(1, CONTRAST * equal));
    }
    this.log = log && !signed && largest > 0;
    if (this.log) this.low = largest * FLOOR;
  }

  /** The strength of a weight, from 0 to 1, or from -1 if signed. tokens: how many of them the weight is the sum of. */
  strength(weight, tokens = 1) {
    if (!(this.high > this.low) || Number.isNaN(weight)) return 0;
    if (this.log) return weight <= 0 ? 0 : clamp(Math.log(weight / this.low) / Math.log(this.high / this.low), 0);
    if (!this.isRelative) return clamp(weight / this.high, this.signed ? -1 : 0);
    // A word of three tokens has three times the equal weight of one.
    return clamp((weight / tokens - this.low) / (this.high - this.low), 0);
  }

  /** The numbers at the ends, and what they mean. */
  get ends() {
    if (this.signed) return [number(-this.high), number(this.high)];
    if (this.isRelative) return [`equal ${number(this.low)}`, number(this.high)];
    return [number(this.low), `${number(this.high)}${this.log ? ", logarithmic" : ""}`];
  }
}

function clamp(value, least) {
  return Math.min(1, Math.max(least, value));
}

/** A weight for people. */
export function number(value) {
  if (Number.isNaN(value)) return "none";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(size < 0.1 ? 2 : 3)));
}

const tables = new Map();

/** Colours of 513 strengths from -1 to 1: [red, green, blue] each, for a theme. */
export function colourTable(theme) {
  if (!tables.has(theme)) {
    const table = new Uint8ClampedArray(513 * 3);
    for (let place = 0; place <= 512; place += 1) {
      const strength = (place - 256) / 256;
      const stops = RAMPS[theme][strength < 0 ? 1 : 0];
      const along = Math.abs(strength) * (stops.length - 1);
      const from = Math.min(Math.floor(along), stops.length - 2);
      for (let channel = 0; channel < 3; channel += 1) {
        const [a, b] = [stops[from][channel], stops[from + 1][channel]];
        table[place * 3 + channel] = a + (b - a) * (along - from);
      }
    }
    tables.set(theme, table);
  }
  return tables.get(theme);
}

/** Place of a strength in the table, its first channel. */
export function placeOf(strength) {
  return Math.round(256 + 256 * strength) * 3;
}

/** A strength's background, and the ink that is legible on it: CSS colours. */
export function shade(strength, theme) {
  const table = colourTable(theme);
  const at = placeOf(strength);
  const [red, green, blue] = table.subarray(at, at + 3);
  const isLight = 0.299 * red + 0.587 * green + 0.114 * blue > 128;
  return { background: `rgb(${red}, ${green}, ${blue})`, ink: isLight ? "#111418" : "#ffffff" };
}

/** A strength's colour over a picture, which is seen under it: a CSS colour. */
export function over(strength) {
  const [least, most] = OPACITIES;
  return `rgba(${OVER[strength < 0 ? 1 : 0]}, ${least + (most - least) * Math.abs(strength)})`;
}
