// Colors of nodes, and their legend.
import type { Scene } from "./scene";

export interface Legend {
  color: string;
  label: string;
}

const kinds: Record<string, [string, string]> = {
  matrix: ["#b9c8f5", "#35477f"],
  convolution: ["#a9dbe8", "#1f5563"],
  normalization: ["#cdeac0", "#38602b"],
  reduction: ["#f5dfa6", "#6b5318"],
  elementwise: ["#f7c6b4", "#74402c"],
  movement: ["#dcdfe6", "#454b57"],
  control: ["#e0c3ee", "#593a6b"],
  random: ["#f4b6d2", "#6f2f4d"],
  constant: ["#e8e2d4", "#57503f"],
  other: ["#c9d6d0", "#3d4c46"],
};

export const statuses: Record<string, [string, string]> = {
  added: ["#9fdda0", "#23642c"],
  removed: ["#f2a49c", "#7a2a24"],
  changed: ["#f6d27a", "#735510"],
  kept: ["#e4e7ec", "#3b414c"],
};

// A color for a name, the same on every page.
function hashed(name: string, isDark: boolean): string {
  let h = 2166136261;
  for (let i = 0; i < name.length; ++i) h = Math.imul(h ^ name.charCodeAt(i), 16777619);
  const hue = (h >>> 0) % 360;
  return isDark ? `hsl(${hue} 38% 32%)` : `hsl(${hue} 62% 82%)`;
}

export class Colors {
  mode = "kind";
  isDark = false;
  private most = 0;
  private sums = new Float64Array(0); // of a measure: by row, what the rows before it have

  constructor(private readonly scene: Scene) {}

  modes(): [string, string][] {
    const all: [string, string][] = [
      ["kind", "kind of operator"],
      ["dtype", "element type"],
      ["parameters", "bytes of parameters"],
      ["results", "bytes of results"],
      ["rule", "rule that made it"],
    ];
    for (const name of Object.keys(this.scene.measures)) all.push([`=${name}`, name]);
    if (this.scene.steps.length > 1) all.unshift(["status", this.scene.isDiff ? "difference" : "what the step did"]);
    return all;
  }

  choose(mode: string): void {
    this.mode = mode;
    this.most = 0;
    this.sums = new Float64Array(0);
    if (this.amount(0) === null) return;
    this.sums = new Float64Array(this.scene.rows + 1);
    for (let r = 0; r < this.scene.rows; ++r) {
      const amount = this.scene.isAlive(r) ? (this.amount(r) ?? 0) : 0;
      this.most = Math.max(this.most, amount);
      this.sums[r + 1] = this.sums[r] + amount;
    }
  }

  // Of a closed group, in the scale of nodes; null where the mode is no measure.
  ofRows(first: number, end: number): string | null {
    return this.sums.length === 0 ? null : this.heat(Math.min(this.most, this.sums[end] - this.sums[first]));
  }

  // What a row has of the chosen measure; null where the mode is no measure.
  amount(row: number): number | null {
    if (this.scene.rows === 0) return null;
    if (this.mode === "parameters") return this.scene.parameterBytes(row);
    if (this.mode === "results") return this.scene.resultBytes(row);
    if (this.mode.startsWith("=")) return this.scene.measures[this.mode.slice(1)][row];
    return null;
  }

  of(row: number): string {
    const pick = ([light, dark]: [string, string]): string => (this.isDark ? dark : light);
    if (this.mode === "kind") return pick(kinds[this.scene.op(row).kind] ?? kinds["other"]);
    if (this.mode === "status") return pick(statuses[this.scene.status(row)] ?? statuses["kept"]);
    const name = this.category(row);
    if (name !== null) return name === "" ? pick(statuses["kept"]) : hashed(name, this.isDark);
    return this.heat(this.amount(row) ?? 0);
  }

  private category(row: number): string | null {
    if (this.mode === "dtype") return this.dtype(row);
    if (this.mode === "rule") return this.scene.origin(row).find(([k]) => k === "rule")?.[1] ?? "";
    return null;
  }

  private dtype(row: number): string {
    const v = this.scene.firstValue[row];
    if (v === this.scene.firstValue[row + 1]) return "";
    return /^[\w]+/.exec(this.scene.type(v))?.[0] ?? "";
  }

  private heat(amount: number): string {
    // Logarithmic over four powers of ten: what one node has may be a thousand times what most have.
    const share = amount <= 0 || this.most <= 0 ? 0 : Math.max(0.05, (Math.log1p((1e4 * amount) / this.most) / Math.log1p(1e4)) ** 1.5);
    return this.isDark
      ? `hsl(${210 - 190 * share} ${20 + 50 * share}% ${26 + 12 * share}%)`
      : `hsl(${210 - 190 * share} ${25 + 65 * share}% ${90 - 22 * share}%)`;
  }

  legend(): Legend[] {
    const rows: Legend[] = [];
    if (this.mode === "status") {
      for (const s of ["added", "removed", "changed", "kept"]) rows.push({ color: statuses[s][this.isDark ? 1 : 0], label: s });
      return rows;
    }
    if (this.amount(0) !== null) {
      rows.push({ color: this.heat(0), label: "0" }, { color: this.heat(this.most), label: quantity(this.most) });
      return rows;
    }
    const found = new Map<string, number>();
    for (let r = 0; r < this.scene.rows; ++r) {
      if (!this.scene.isAlive(r)) continue;
      const name = this.mode === "kind" ? this.scene.op(r).kind : (this.category(r) ?? "");
      found.set(name, (found.get(name) ?? 0) + 1);
    }
    for (const [name] of [...found].sort((a, b) => b[1] - a[1]).slice(0, 10)) {
      const color = this.mode === "kind" ? kinds[name][this.isDark ? 1 : 0] : hashed(name, this.isDark);
      rows.push({ color: name === "" ? statuses["kept"][this.isDark ? 1 : 0] : color, label: name || "none" });
    }
    return rows;
  }
}

export function quantity(x: number): string {
  if (x < 1000) return Number.isInteger(x) ? String(x) : x.toPrecision(3);
  for (const unit of ["k", "M", "G", "T", "P"]) {
    x /= 1000;
    if (x < 1000) return `${x.toPrecision(3)} ${unit}`;
  }
  return `${x.toExponential(2)}`;
}
