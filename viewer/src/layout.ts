// Boxes with places: dagre lays out each open group by itself, so that opening one moves only those around it.
import * as dagre from "@dagrejs/dagre";

import { type Item, type Level, levelOf } from "./levels";
import type { Scene } from "./scene";

export interface Point {
  x: number;
  y: number;
}

export interface Edge {
  from: number; // children
  to: number;
  points: Point[];
  values: number[]; // pairs: value, row that reads it
  shown: boolean; // at the present step
}

export interface Box {
  item: Item;
  key: string; // of this place: functions may be open in several
  parent: Box | null;
  x: number; // of the corner, from the parent's corner
  y: number;
  w: number;
  h: number;
  title: string;
  detail: string;
  isOpen: boolean;
  isIdle: boolean; // of values that enter or leave: none of them does so at the present step
  children: Box[];
  edges: Edge[];
}

const padding = 14;
const head = 24;
const nodeHeight = 38;
const portHeight = 20;
const mostRemembered = 20000;

// Same sizes and edges: same places. Copies of a layer are laid out once.
interface Places {
  boxes: Point[];
  edges: Point[][];
  w: number;
  h: number;
}

export class Layout {
  readonly open = new Set<string>();
  private readonly levels = new Map<number, Level>();
  private readonly known = new Map<string, Places>();
  private readonly widths = new Map<string, number>();

  constructor(
    private readonly scene: Scene,
    private readonly measure: (text: string, isTitle: boolean) => number,
  ) {}

  // The box of a function with everything in it that is open.
  root(group: number): Box {
    const box = this.groupBox(group, `${group}`, null);
    this.fill(box, group);
    return box;
  }

  level(group: number): Level {
    let level = this.levels.get(group);
    if (!level) this.levels.set(group, (level = levelOf(this.scene, group)));
    return level;
  }

  // The key of a child of a box.
  static keyOf(parent: string, item: Item): string {
    if (item.kind === "node") return `${parent}/r${item.row}`;
    if (item.kind === "group") return `${parent}/${item.group}`;
    return `${parent}/${item.kind}${item.values[0]}`;
  }

  // The groups that a node holds: its bodies, or the function that it calls.
  inside(row: number): number[] {
    const call = this.scene.calls.get(row);
    return this.scene.bodies.get(row) ?? (call === undefined ? [] : [call]);
  }

  canOpen(item: Item): boolean {
    return item.kind === "group" || (item.kind === "node" && this.inside(item.row).length > 0);
  }

  private width(text: string, isTitle: boolean): number {
    const key = (isTitle ? "t" : "d") + text;
    let w = this.widths.get(key);
    if (w === undefined) this.widths.set(key, (w = Math.ceil(this.measure(text, isTitle))));
    return w;
  }

  private groupBox(index: number, key: string, parent: Box | null): Box {
    const g = this.scene.groups[index];
    const count = g.end - g.first;
    let title = g.label || "graph";
    if (g.kind === "repeat") title = `${g.label} × ${g.copies}`;
    const detail = `${count} node${count === 1 ? "" : "s"}`;
    return {
      item: { kind: "group", group: index }, key, parent, x: 0, y: 0, w: 0, h: 0, title,
      detail: title.endsWith(" nodes") ? "" : detail, isOpen: false, isIdle: false, children: [], edges: [],
    }; // prettier-ignore
  }

  private boxOf(item: Item, key: string, parent: Box): Box {
    if (item.kind === "group") return this.groupBox(item.group, key, parent);
    const box: Box = {
      item, key, parent, x: 0, y: 0, w: 0, h: 0, title: "", detail: "", isOpen: false, isIdle: false, children: [], edges: [],
    }; // prettier-ignore
    if (item.kind === "node") {
      const row = item.row;
      box.title = this.scene.op(row).name;
      const first = this.scene.firstValue[row];
      box.detail = first < this.scene.firstValue[row + 1] ? this.scene.type(first) : "";
    } else {
      box.title = shortened(item.label, 28);
    }
    return box;
  }

  private size(box: Box): void {
    if (box.item.kind === "in" || box.item.kind === "out") {
      box.w = this.width(box.title, false) + 18;
      box.h = portHeight;
      return;
    }
    const title = shortened(box.title, 42);
    const detail = shortened(box.detail, 36);
    box.w = Math.max(72, this.width(title, true) + 26, this.width(detail, false) + 22);
    box.h = box.item.kind === "group" ? nodeHeight + 4 : nodeHeight;
    box.title = title;
    box.detail = detail;
  }

  // Gives a box its size, and places to what is open in it.
  private fill(box: Box, group: number): void {
    const level = this.level(group);
    box.isOpen = true;
    box.children = level.items.map((item) => {
      const key = Layout.keyOf(box.key, item);
      const child = this.boxOf(item, key, box);
      if (this.canOpen(item) && this.open.has(key)) this.openChild(child);
      else this.size(child);
      return child;
    });
    const places = this.placed(box.children, level);
    const titleWidth = this.width(shortened(box.title, 60), true) + 60;
    box.w = Math.max(places.w + 2 * padding, titleWidth);
    box.h = places.h + head + 2 * padding;
    const left = (box.w - places.w) / 2;
    const top = head + padding;
    box.children.forEach((child, i) => {
      child.x = left + places.boxes[i].x - child.w / 2;
      child.y = top + places.boxes[i].y - child.h / 2;
    });
    box.edges = level.edges.map((e, i) => ({
      from: e.from,
      to: e.to,
      points: places.edges[i].map((p) => ({ x: p.x + left, y: p.y + top })),
      values: e.values,
      shown: true,
    }));
  }

  private openChild(child: Box): void {
    if (child.item.kind === "group") {
      this.fill(child, child.item.group);
      return;
    }
    if (child.item.kind !== "node") return;
    // Bodies stand side by side.
    child.isOpen = true;
    let x = padding;
    let tallest = 0;
    for (const g of this.inside(child.item.row)) {
      const body = this.groupBox(g, `${child.key}/${g}`, child);
      this.fill(body, g);
      body.x = x;
      body.y = head + padding;
      x += body.w + padding;
      tallest = Math.max(tallest, body.h);
      child.children.push(body);
    }
    child.w = Math.max(x, this.width(child.title, true) + 60);
    child.h = tallest + head + 2 * padding;
  }

  private placed(boxes: Box[], level: Level): Places {
    const key = `${boxes.map((b) => `${b.w},${b.h}`).join(" ")}|${level.edges.map((e) => `${e.from},${e.to}`).join(" ")}`;
    let places = this.known.get(key);
    if (!places) {
      places = this.layered(boxes, level);
      if (this.known.size > mostRemembered) this.known.clear();
      this.known.set(key, places);
    }
    return places;
  }

  private layered(boxes: Box[], level: Level): Places {
    const graph = new dagre.Graph({ multigraph: true });
    graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 30, edgesep: 10, marginx: 0, marginy: 0 });
    graph.setDefaultEdgeLabel(() => ({}));
    boxes.forEach((b, i) => graph.setNode(String(i), { width: b.w, height: b.h }));
    level.edges.forEach((e, i) => graph.setEdge(String(e.from), String(e.to), {}, String(i)));
    if (boxes.length > 0) dagre.layout(graph);
    const size = graph.graph() as { width?: number; height?: number };
    const places: Places = { boxes: [], edges: [], w: finite(size.width), h: finite(size.height) };
    for (let i = 0; i < boxes.length; ++i) {
      const n = graph.node(String(i)) as { x: number; y: number };
      places.boxes.push({ x: n.x, y: n.y });
    }
    level.edges.forEach((e, i) => {
      const label = graph.edge(String(e.from), String(e.to), String(i)) as { points?: Point[] };
      places.edges.push(label.points ?? []);
    });
    return places;
  }
}

function finite(x: number | undefined): number {
  return x !== undefined && Number.isFinite(x) ? x : 0;
}

export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
