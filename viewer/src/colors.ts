// Colors of nodes, and their legend.
import { type Scene, elementType } from "./scene";

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

// Element types, from the most bits to the fewest.
const precisions: Record<string, [string, string]> = {
  f64: ["#b9c8f5", "#35477f"],
  f32: ["#cfdcec", "#34475f"],
  f16: ["#9fd8c9", "#1f5d50"],
  bf16: ["#c3e59a", "#46661f"],
  "8-bit floats": ["#e6e08a", "#625c16"],
  int8: ["#f8cf8a", "#74511a"],
  int4: ["#f4a582", "#7d3c22"],
  "1 to 6 bits": ["#e58a9c", "#7a2a3d"],
  integers: ["#dcdfe6", "#454b57"],
  bool: ["#e0c3ee", "#593a6b"],
  other: ["#e8e2d4", "#57503f"],
};

// What the legend calls an element type. Sign and kind of small types do not matter for size.
function precision(type: string): string {
  if (type === "" || Object.hasOwn(precisions, type)) return type;
  if (/^f8/.test(type)) return "8-bit floats";
  const [, bits] = /^[iu](\d+)$/.exec(type) ?? [];
  if (bits === undefined) return /^f4/.test(type) ? "1 to 6 bits" : "other";
  if (bits === "8" || bits === "4") return `int${bits}`;
  return Number(bits) < 8 ? "1 to 6 bits" : "integers";
}

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
  private readonly groups = new Map<string, string | number | null>(); // of closed groups, while the mode is chosen
  private sums = new Float64Array(0); // of a measure: by row, what the rows before it have

  constructor(private readonly scene: Scene) {}

  modes(): [string, string][] {
    const all: [string, string][] = [
      ["kind", "kind of operator"],
      ["dtype", "type of results"],
      ["stored", "type of weights"],
      ["parameters", "bytes of parameters"],
      ["results", "bytes of results"],
      ["rule", "rule that made it"],
    ];
    for (const name of Object.keys(this.scene.measures)) all.push([`=${name}`, name]);
    if (this.scene.hasErrors) all.unshift(["error", "error"]);
    if (this.scene.steps.length > 1) all.unshift(["status", this.scene.isDiff ? "difference" : "what the step did"]);
    return all;
  }

  choose(mode: string): void {
    this.mode = mode;
    this.most = 0;
    this.sums = new Float64Array(0);
    this.groups.clear();
    if (this.amount(0) === null) return;
    this.sums = new Float64Array(this.scene.rows + 1);
    for (let r = 0; r < this.scene.rows; ++r) {
      const amount = this.scene.isAlive(r) ? (this.amount(r) ?? 0) : 0;
      this.most = Math.max(this.most, amount);
      this.sums[r + 1] = this.sums[r] + amount;
    }
  }

  // Of a closed group: the sum of a measure in the scale of nodes, the largest error, or the type that all nodes have
  // that have one. Null where there is none.
  ofRows(first: number, end: number): string | null {
    if (this.mode === "error" || this.mode === "dtype" || this.mode === "stored") {
      const key = `${first}:${end}`;
      if (!this.groups.has(key)) this.groups.set(key, this.mode === "error" ? this.largestError(first, end) : this.commonType(first, end));
      const found = this.groups.get(key) ?? null;
      return found === null || typeof found === "number" ? this.errorColor(found) : found === "" ? null : this.named(found);
    }
    return this.sums.length === 0 ? null : this.heat(Math.min(this.most, this.sums[end] - this.sums[first]));
  }

  private largestError(first: number, end: number): number | null {
    let largest: number | null = null;
    for (let r = first; r < end; ++r) {
      const error = this.scene.error(r);
      if (error !== null) largest = Math.max(largest ?? 0, error);
    }
    return largest;
  }

  private commonType(first: number, end: number): string {
    let common = "";
    for (let r = first; r < end; ++r) {
      const type = this.scene.isAlive(r) ? (this.category(r) ?? "") : "";
      if (type !== "" && common !== "" && type !== common) return "";
      common = type || common;
    }
    return common;
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
    if (this.mode === "error") return this.errorColor(this.scene.error(row));
    const name = this.category(row);
    if (name !== null) return this.named(name);
    return this.heat(this.amount(row) ?? 0);
  }

  private category(row: number): string | null {
    if (this.mode === "dtype") return precision(this.dtype(row));
    if (this.mode === "stored") return precision(this.scene.storedType(row));
    if (this.mode === "rule") return this.scene.origin(row).find(([k]) => k === "rule")?.[1] ?? "";
    return null;
  }

  private dtype(row: number): string {
    const v = this.scene.firstValue[row];
    if (v === this.scene.firstValue[row + 1]) return "";
    return elementType(this.scene.type(v));
  }

  // The color of a category.
  private named(name: string): string {
    const fixed: Record<string, [string, string]> = this.mode === "kind" ? kinds : this.mode === "rule" ? {} : precisions;
    if (name !== "" && !Object.hasOwn(fixed, name)) return hashed(name, this.isDark);
    return (name === "" ? statuses["kept"] : fixed[name])[this.isDark ? 1 : 0];
  }

  // Logarithmic from a ten-millionth, where f32 rounds, to 1.
  private errorColor(error: number | null): string {
    if (error === null) return statuses["kept"][this.isDark ? 1 : 0];
    const share = error === 0 ? 0 : Math.min(1, Math.max(0.04, 1 + Math.log10(error) / 7));
    const hue = 150 - 150 * share;
    return this.isDark ? `hsl(${hue} 50% ${24 + 12 * share}%)` : `hsl(${hue} ${45 + 40 * share}% ${86 - 20 * share}%)`;
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
    if (this.mode === "error") {
      for (const e of [0, 1e-6, 1e-4, 0.01, 1]) rows.push({ color: this.errorColor(e), label: errorText(e) });
      rows.push({ color: this.errorColor(null), label: "not in the other model" });
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
    for (const [name] of [...found].sort((a, b) => b[1] - a[1]).slice(0, 12)) rows.push({ color: this.named(name), label: name || "none" });
    return rows;
  }
}

// An error as a share: "0.12 %".
export function errorText(error: number): string {
  return Number.isFinite(error) ? `${error === 0 ? 0 : Number((100 * error).toPrecision(2))} %` : "not finite";
}

export function quantity(x: number): string {
  if (x < 1000) return Number.isInteger(x) ? String(x) : x.toPrecision(3);
  for (const unit of ["k", "M", "G", "T", "P"]) {
    x /= 1000;
    if (x < 1000) return `${x.toPrecision(3)} ${unit}`;
  }
  return `${x.toExponential(2)}`;
}
