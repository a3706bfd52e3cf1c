// Colours, letters and dashes of options, which everybody can tell apart by at least one of them.
// The colours are near those of Okabe and Ito, moved apart for eyes that lack one kind of cone; a
// test measures the distances.

const THEMES = {
  light: {
    ink: "#182230", muted: "#525e6e", line: "#dde2e9", link: "#b4becb", surface: "#ffffff", bad: "#a8261c", veil: "rgba(243,245,248,0.72)",
    options: ["#1e65b4", "#c66700", "#00af6e", "#ae6ca7", "#cea115", "#52a9f3", "#705200", "#533a7d"],
    others: "#767a78",
  },
  dark: {
    ink: "#e8edf4", muted: "#a3afbf", line: "#2a3442", link: "#46546a", surface: "#161c26", bad: "#ff9a8c", veil: "rgba(13,17,23,0.62)",
    options: ["#77cdff", "#ee8154", "#24b084", "#e98cbe", "#ffb92a", "#bde9f4", "#d4bc4a", "#a587d5"],
    others: "#6d7a8c",
  },
};

export const DASHES = [[], [9, 4], [3, 3], [10, 3, 2, 3], [6, 5], [14, 4], [2, 5], [6, 2, 2, 2]];
export const OTHERS = 8;
const LETTERS = "ABCDEFGH";

export const theme = { ...THEMES.light, name: "light" };

export function readTheme() {
  const wanted = document.documentElement.dataset.theme;
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  Object.assign(theme, dark ? THEMES.dark : THEMES.light, { name: dark ? "dark" : "light" });
}

export const colour = (slot) => (slot < OTHERS ? theme.options[slot] : theme.others);
export const letter = (slot) => (slot < OTHERS ? LETTERS[slot] : "·");

// Black or white, whichever is read more easily on a colour #rrggbb.
export function textOn(background) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(background.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

export function chip(slot) {
  const node = document.createElement("span");
  node.className = "chip";
  node.textContent = letter(slot);
  paint(node, slot);
  return node;
}

export function paint(node, slot) {
  node.style.background = colour(slot);
  node.style.color = textOn(colour(slot));
}

// Which options have a colour of their own: all where there are up to eight, else the seven that
// matter most, and the rest is "others". An option keeps its colour as long as it can.
export class Slots {
  constructor(count) {
    this.count = count;
    this.size = count <= 8 ? count : 7;
    this.arms = Array.from({ length: this.size }, (_, slot) => slot);
    this.index();
  }

  index() {
    this.slots = new Uint8Array(this.count).fill(OTHERS);
    this.arms.forEach((arm, slot) => { this.slots[arm] = slot; });
  }

  of(arm) {
    return arm >= 0 && arm < this.count ? this.slots[arm] : OTHERS;
  }

  // Choose anew by weight, in the order of options.
  choose(weights) {
    const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || a - b);
    this.arms = order.slice(0, this.size).sort((a, b) => a - b);
    this.index();
  }

  // Hand the least colour to an option that has clearly overtaken it; return whether one changed.
  adapt(weights) {
    if (this.count <= this.size) return false;
    const least = this.arms.reduce((low, arm) => (weights[arm] < weights[low] ? arm : low));
    let best = -1;
    for (let arm = 0; arm < this.count; arm += 1) {
      if (this.slots[arm] === OTHERS && (best < 0 || weights[arm] > weights[best])) best = arm;
    }
    if (!(weights[best] > weights[least] + 0.02)) return false;
    this.arms[this.slots[least]] = best;
    this.index();
    return true;
  }
}
