// The graph of a page: what src/view/scene.cc wrote, as arrays by row and by value.
//
// A row is a node. The rows of a group, and those of a node with its bodies, follow each other.

type Names = { shared: number[]; rests: string };
type Pairs = [string, string][];

interface Written {
  title: string;
  facts: Pairs;
  diff: boolean;
  types: string[];
  typeBytes: number[];
  ops: [string, string, number, string, string[], number][];
  attrs: Pairs[];
  origins: Pairs[];
  inputs: number;
  nodes: {
    op: number[];
    attrs: number[];
    origin: number[];
    inputCounts: number[];
    inputs: number[];
    results: number[];
    types: number[];
    names: Names;
    bodies: [number, number[]][];
    calls: [number, number][];
    born?: number[];
    died?: number[];
  };
  constants: { types: number[]; bytes: number[]; names: Names; texts: string[]; histograms: [number, number[]][] };
  groups: [GroupKind, string, number, number, number][];
  blocks: [number, number[], [string, number][]][];
  steps: [string, number, number, number, number, number][];
  edits: [number, number, number, number, number, number[], number[]][];
  measures: Record<string, number[]>;
  errors?: number[];
  curve?: { points: [string, number, number | null][]; chosen: number };
  color?: string;
  sources: Record<string, string>;
}

export type GroupKind = "function" | "body" | "module" | "repeat" | "copy" | "part";

export interface Group {
  kind: GroupKind;
  label: string;
  first: number;
  end: number;
  copies: number;
  parent: number; // -1: none
  owner: number; // of a body: the row of its node, else -1
  children: number[]; // groups; bodies belong to nodes
  block: Block | null; // of functions and bodies
}

export interface Block {
  group: number;
  inputs: number[]; // values
  outputs: { name: string; ref: number }[];
}

export interface Operator {
  name: string;
  domain: string;
  version: number;
  kind: string;
  slots: string[];
  lists: number; // how many of the last slots are lists
}

export interface Constant {
  name: string;
  type: string;
  bytes: number;
  text: string;
  histogram: number[] | null;
}

export interface Step {
  label: string;
  nodes: number;
  added: number;
  removed: number;
  changed: number;
  seconds: number;
}

// The state of a row from a step on.
interface State {
  step: number;
  op: number;
  attrs: number;
  origin: number;
  inputs: number[];
  types: number[];
}

export type Status = "absent" | "kept" | "added" | "removed" | "changed";

function named(names: Names): string[] {
  const rests = names.rests.split("\n");
  const all: string[] = new Array(names.shared.length);
  let last = "";
  const encoder = /[^\0-\x7f]/.test(names.rests) ? new TextEncoder() : null;
  const decoder = new TextDecoder();
  for (let i = 0; i < all.length; ++i) {
    const shared = names.shared[i];
    // Lengths count bytes.
    if (encoder) last = decoder.decode(encoder.encode(last).subarray(0, shared)) + rests[i];
    else last = last.slice(0, shared) + rests[i];
    all[i] = last;
  }
  return all;
}

export const absent = -1;

// "f32" of "f32[3,5]".
export function elementType(type: string): string {
  return /^\w+/.exec(type)?.[0] ?? "";
}

// What optimize --max-error tried; an error of null is infinite.
export interface Curve {
  points: { types: string; bytes: number; error: number | null }[];
  chosen: number;
}

export class Scene {
  readonly title: string;
  readonly facts: Pairs;
  readonly isDiff: boolean;
  readonly rows: number;
  readonly groups: Group[];
  readonly blocks: Block[] = [];
  readonly functions: number[] = []; // groups
  readonly ops: Operator[];
  readonly steps: Step[];
  readonly sources: Record<string, string>;
  readonly measures: Record<string, number[]>;
  readonly curve: Curve | null;
  readonly hasErrors: boolean;
  readonly color: string;
  readonly names: string[]; // by row
  readonly valueNames: string[];
  readonly valueRow: Int32Array; // by value: the row that makes it, or -1
  readonly valueBlock: Int32Array; // of inputs: the block, else -1
  readonly firstValue: Int32Array; // by row, and one more
  readonly bodies = new Map<number, number[]>();
  readonly calls = new Map<number, number>();
  readonly isOutput: Uint8Array; // by value
  step = 0;
  alive: Int32Array; // by row: how many rows before it are alive
  readonly userStart: Int32Array;
  readonly userRow: Int32Array;

  private readonly written: Written;
  private readonly inputStart: Int32Array;
  private readonly inputList: Int32Array;
  private readonly constantNames: string[];
  private readonly histograms = new Map<number, number[]>();
  private readonly states = new Map<number, State[]>();

  constructor(text: string) {
    const w = (this.written = JSON.parse(text) as Written);
    this.title = w.title;
    this.facts = w.facts;
    this.isDiff = w.diff;
    this.sources = w.sources;
    this.measures = w.measures;
    this.curve = w.curve
      ? { points: w.curve.points.map(([types, bytes, error]) => ({ types, bytes, error })), chosen: w.curve.chosen }
      : null;
    this.hasErrors = w.errors !== undefined;
    this.color = w.color ?? "";
    const n = (this.rows = w.nodes.op.length);
    this.ops = w.ops.map(([name, domain, version, kind, slots, lists]) => ({ name, domain, version, kind, slots, lists }));
    this.steps = w.steps.map(([label, nodes, added, removed, changed, seconds]) => ({
      label, nodes, added, removed, changed, seconds,
    })); // prettier-ignore

    const all = named(w.nodes.names);
    this.names = new Array(n);
    this.firstValue = new Int32Array(n + 1);
    this.inputStart = new Int32Array(n + 1);
    let value = w.inputs;
    for (let r = 0; r < n; ++r) {
      this.firstValue[r] = value;
      value += w.nodes.results[r];
      this.inputStart[r + 1] = this.inputStart[r] + w.nodes.inputCounts[r];
    }
    this.firstValue[n] = value;
    this.valueNames = all.slice(0, w.inputs);
    this.valueNames.length = value;
    this.valueRow = new Int32Array(value).fill(-1);
    this.valueBlock = new Int32Array(value).fill(-1);
    let at = w.inputs;
    for (let r = 0; r < n; ++r) {
      this.names[r] = all[at++];
      for (let v = this.firstValue[r]; v < this.firstValue[r + 1]; ++v) {
        this.valueNames[v] = all[at++];
        this.valueRow[v] = r;
      }
    }
    this.inputList = Int32Array.from(w.nodes.inputs);
    for (let r = 0; r < n; ++r) {
      for (let i = this.inputStart[r]; i < this.inputStart[r + 1]; ++i) {
        const d = this.inputList[i];
        if (d >= 0) this.inputList[i] = this.firstValue[r] + (d & 1 ? d >> 1 : -(d >> 1)); // constants are not relative
      }
    }

    this.constantNames = named(w.constants.names);
    for (const [i, bars] of w.constants.histograms) this.histograms.set(i, bars);
    for (const [row, list] of w.nodes.bodies) this.bodies.set(row, list);
    for (const [row, group] of w.nodes.calls) this.calls.set(row, group);
    this.groups = w.groups.map(([kind, label, first, end, copies]) => ({
      kind, label, first, end, copies, parent: -1, owner: -1, children: [], block: null,
    })); // prettier-ignore
    this.nest();
    this.isOutput = new Uint8Array(value);
    for (const [group, inputs, outputs] of w.blocks) {
      const block: Block = { group, inputs, outputs: outputs.map(([name, ref]) => ({ name, ref })) };
      this.groups[group].block = block;
      for (const v of inputs) this.valueBlock[v] = this.blocks.length;
      for (const o of block.outputs) if (o.ref >= 0) this.isOutput[o.ref] = 1;
      this.blocks.push(block);
    }
    this.groups.forEach((g, i) => {
      if (g.kind === "function") this.functions.push(i);
    });
    for (const [step, row, op, attrs, origin, inputs, types] of w.edits) {
      const list = this.states.get(row) ?? [];
      list.push({ step, op, attrs, origin, inputs, types });
      this.states.set(row, list);
    }
    [this.userStart, this.userRow] = this.users();
    this.alive = new Int32Array(n + 1);
    this.setStep(this.steps.length - 1);
  }

  // Groups are in preorder.
  private nest(): void {
    for (const [row, list] of this.bodies) for (const g of list) this.groups[g].owner = row;
    const open: number[] = [];
    const holds = (outer: Group, g: Group): boolean =>
      g.owner >= 0 ? outer.first <= g.owner && g.owner < outer.end : outer.first <= g.first && g.end <= outer.end;
    this.groups.forEach((g, i) => {
      if (g.kind === "function") open.length = 0;
      while (open.length > 0 && !holds(this.groups[open[open.length - 1]], g)) open.pop();
      if (open.length > 0) {
        g.parent = open[open.length - 1];
        if (g.owner < 0) this.groups[g.parent].children.push(i);
      }
      open.push(i);
    });
  }

  // The users of each value in any step, by value.
  private users(): [Int32Array, Int32Array] {
    const start = new Int32Array(this.valueRow.length + 1);
    const list = this.inputList;
    for (const v of list) if (v >= 0) ++start[v + 1];
    for (const edits of this.states.values()) for (const s of edits) for (const v of s.inputs) if (v >= 0) ++start[v + 1];
    for (let v = 0; v < this.valueRow.length; ++v) start[v + 1] += start[v];
    const rows = new Int32Array(start[this.valueRow.length]);
    const next = start.slice();
    for (let r = 0; r < this.rows; ++r) {
      for (let i = this.inputStart[r]; i < this.inputStart[r + 1]; ++i) if (list[i] >= 0) rows[next[list[i]]++] = r;
    }
    for (const [r, edits] of this.states) for (const s of edits) for (const v of s.inputs) if (v >= 0) rows[next[v]++] = r;
    return [start, rows];
  }

  // Each value that a row reads in some step; values read twice are visited twice.
  everyInput(row: number, visit: (value: number) => void): void {
    for (let i = this.inputStart[row]; i < this.inputStart[row + 1]; ++i) {
      if (this.inputList[i] >= 0) visit(this.inputList[i]);
    }
    const later = this.states.get(row);
    if (later) for (const s of later) for (const v of s.inputs) if (v >= 0) visit(v);
  }

  setStep(step: number): void {
    this.step = step;
    const isSteady = this.steps.length < 2;
    for (let r = 0; r < this.rows; ++r) this.alive[r + 1] = this.alive[r] + (isSteady || this.isShown(r) ? 1 : 0);
  }

  isAlive(row: number, step = this.step): boolean {
    const { born, died } = this.written.nodes;
    return born === undefined || died === undefined || (born[row] <= step && (died[row] < 0 || step < died[row]));
  }

  // What a step did to a row.
  status(row: number): Status {
    const { born, died } = this.written.nodes;
    if (born === undefined || died === undefined || this.steps.length < 2) return "kept";
    if (died[row] === this.step) return "removed";
    if (!this.isAlive(row)) return "absent";
    if (this.step > 0 && born[row] === this.step) return "added";
    if (this.step > 0 && this.isEdited(row)) return "changed";
    return "kept";
  }

  private isEdited(row: number): boolean {
    const list = this.states.get(row);
    const at = list?.findIndex((s) => s.step === this.step) ?? -1;
    if (list === undefined || at < 0) return false;
    const after = list[at];
    const before = this.stateAt(row, this.step - 1);
    return before.op !== after.op || before.attrs !== after.attrs || before.inputs.join() !== after.inputs.join() ||
      before.types.join() !== after.types.join(); // prettier-ignore
  }

  // Rows that this step removes are shown, too.
  isShown(row: number): boolean {
    return this.isAlive(row) || this.status(row) === "removed";
  }

  shownIn(first: number, end: number): number {
    return this.alive[end] - this.alive[first];
  }

  stateAt(row: number, step: number): State {
    let found: State | undefined;
    for (const s of this.states.get(row) ?? []) if (s.step <= step) found = s;
    const w = this.written.nodes;
    const first = this.firstValue[row];
    return found ?? {
      step: 0, op: w.op[row], attrs: w.attrs[row], origin: w.origin[row],
      inputs: Array.from(this.inputList.subarray(this.inputStart[row], this.inputStart[row + 1])),
      types: w.types.slice(first, this.firstValue[row + 1]),
    }; // prettier-ignore
  }

  private state(row: number): State {
    return this.stateAt(row, this.status(row) === "removed" ? this.step - 1 : this.step);
  }

  op(row: number): Operator {
    return this.ops[this.states.size === 0 ? this.written.nodes.op[row] : this.state(row).op];
  }
  attrs(row: number): Pairs {
    return this.written.attrs[this.state(row).attrs];
  }
  origin(row: number): Pairs {
    return this.written.origins[this.states.size === 0 ? this.written.nodes.origin[row] : this.state(row).origin];
  }
  inputs(row: number): number[] {
    return this.state(row).inputs;
  }
  typeIndex(value: number): number {
    const row = this.valueRow[value];
    if (row < 0 || !this.states.has(row)) return this.written.nodes.types[value];
    return this.state(row).types[value - this.firstValue[row]];
  }
  type(value: number): string {
    return this.written.types[this.typeIndex(value)];
  }
  typeBytes(value: number): number {
    return this.written.typeBytes[this.typeIndex(value)];
  }
  constant(ref: number): Constant {
    const i = -2 - ref;
    const c = this.written.constants;
    return {
      name: this.constantNames[i], type: this.written.types[c.types[i]], bytes: c.bytes[i], text: c.texts[i],
      histogram: this.histograms.get(i) ?? null,
    }; // prettier-ignore
  }

  // Bytes of the constants that a row reads.
  parameterBytes(row: number): number {
    let bytes = 0;
    for (const r of this.inputs(row)) if (r < absent) bytes += this.written.constants.bytes[-2 - r];
    return bytes;
  }
  resultBytes(row: number): number {
    let bytes = 0;
    for (let v = this.firstValue[row]; v < this.firstValue[row + 1]; ++v) bytes += this.typeBytes(v);
    return bytes;
  }

  // How far a value is from the other model's, as a share of the largest element there; null: it has no counterpart.
  errorOf(value: number): number | null {
    const error = this.written.errors?.[value - this.written.inputs] ?? -1;
    if (value < this.written.inputs || error < 0) return null;
    return error === Number.MAX_VALUE ? Infinity : error;
  }
  // The largest of a row's results.
  error(row: number): number | null {
    let largest: number | null = null;
    for (let v = this.firstValue[row]; v < this.firstValue[row + 1]; ++v) {
      const error = this.errorOf(v);
      if (error !== null) largest = Math.max(largest ?? 0, error);
    }
    return largest;
  }

  // The type in which the weights of a row are stored: of the largest constant that it reads, also behind nodes that
  // read nothing but constants, as those that expand narrow weights. "" if none has more than 64 bytes.
  storedType(row: number): string {
    const found = this.largestConstant(row, 0);
    return found && found.bytes > 64 ? elementType(found.type) : "";
  }
  private largestConstant(row: number, depth: number): Constant | null {
    const deepest = 8;
    let largest: Constant | null = null;
    for (const ref of this.inputs(row)) {
      let found: Constant | null = null;
      if (ref < absent) found = this.constant(ref);
      else if (ref >= 0 && depth < deepest && this.readsConstantsOnly(ref)) found = this.largestConstant(this.valueRow[ref], depth + 1);
      if (found && (!largest || found.bytes > largest.bytes)) largest = found;
    }
    return largest;
  }
  // Whether a value does not depend on inputs.
  private readsConstantsOnly(value: number): boolean {
    const deepest = 8;
    const all = (v: number, depth: number): boolean => {
      const row = this.valueRow[v];
      return row >= 0 && depth < deepest && !this.bodies.has(row) && this.inputs(row).every((r) => r < 0 || all(r, depth + 1));
    };
    return all(value, 0);
  }

  // The name of operand i of a row, as its operator calls it.
  slot(row: number, i: number): string {
    const op = this.op(row);
    const singles = op.slots.length - op.lists;
    if (op.slots.length === 0) return String(i);
    if (i < singles) return op.slots[i];
    if (op.lists === 0) return op.slots[op.slots.length - 1];
    const length = Math.max(1, (this.inputs(row).length - singles) / op.lists);
    const list = Math.min(op.lists - 1, Math.floor((i - singles) / length));
    return `${op.slots[singles + list]}[${(i - singles) % length}]`;
  }

  users_of(value: number): number[] {
    const rows = new Set(this.userRow.subarray(this.userStart[value], this.userStart[value + 1]));
    return [...rows].filter((r) => this.isShown(r) && this.inputs(r).includes(value));
  }

  // One more than the last row of a node and its bodies.
  rowEnd(row: number): number {
    const list = this.bodies.get(row);
    return list === undefined ? row + 1 : Math.max(row + 1, ...list.map((g) => this.groups[g].end));
  }

  // The function that a group is in.
  functionOf(group: number): number {
    while (this.groups[group].kind !== "function") group = this.groups[group].parent;
    return group;
  }

  label(row: number): string {
    return this.names[row] || this.valueNames[this.firstValue[row]] || `${this.op(row).name} ${row}`;
  }
  valueLabel(value: number): string {
    return this.valueNames[value] || `%${value}`;
  }
}
