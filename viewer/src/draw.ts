// Draws boxes on a canvas: only what is in view and large enough to see.
import type { Colors } from "./colors";
import type { Box, Edge, Point } from "./layout";
import type { Scene } from "./scene";

export interface Camera {
  x: number; // what is in the left upper corner
  y: number;
  scale: number;
}

// What the last frame showed, for tests.
export interface Drawn {
  kind: string;
  key: string;
  title: string;
  detail: string;
  x: number;
  y: number;
  w: number;
  h: number;
  color: string;
}

export interface Theme {
  page: string;
  line: string;
  text: string;
  faint: string;
  groups: [string, string];
  accent: string;
  producer: string;
  user: string;
}

const light: Theme = {
  page: "#ffffff", line: "#9aa3b2", text: "#171c26", faint: "#5d6677", groups: ["#f6f7fa", "#eceff4"],
  accent: "#1f6feb", producer: "#b4690e", user: "#1a7f4b",
}; // prettier-ignore
const dark: Theme = {
  page: "#12151b", line: "#5a6373", text: "#e6eaf2", faint: "#9aa5b8", groups: ["#191d25", "#20252f"],
  accent: "#6ea8fe", producer: "#e0a050", user: "#5fc98f",
}; // prettier-ignore

export const titleFont = "600 12px system-ui, -apple-system, 'Segoe UI', sans-serif";
export const detailFont = "11px ui-monospace, 'DejaVu Sans Mono', monospace";

export class Painter {
  camera: Camera = { x: 0, y: 0, scale: 1 };
  drawn: Drawn[] = [];
  selected: string | null = null; // a key
  selectedRow = -1;
  marked = new Set<number>(); // rows that a search found
  isDark = false;

  constructor(
    private readonly scene: Scene,
    private readonly colors: Colors,
  ) {}

  get theme(): Theme {
    return this.isDark ? dark : light;
  }

  paint(g: CanvasRenderingContext2D, root: Box, width: number, height: number, ratio: number): void {
    const { x, y, scale } = this.camera;
    this.drawn = [];
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = this.theme.page;
    g.fillRect(0, 0, width, height);
    g.setTransform(ratio * scale, 0, 0, ratio * scale, -x * scale * ratio, -y * scale * ratio);
    g.textBaseline = "middle";
    const view = { left: x, top: y, right: x + width / scale, bottom: y + height / scale };
    this.box(g, root, 0, 0, 0, view);
  }

  private box(g: CanvasRenderingContext2D, box: Box, dx: number, dy: number, depth: number, view: View): void {
    const x = dx + box.x;
    const y = dy + box.y;
    if (x > view.right || y > view.bottom || x + box.w < view.left || y + box.h < view.top) return;
    if (!this.isShown(box)) return;
    const scale = this.camera.scale;
    const isLarge = box.h * scale >= 4 && box.w * scale >= 4;
    const record = (color: string): void => {
      this.drawn.push({
        kind: box.item.kind, key: box.key, title: box.title, detail: box.detail, x: (x - this.camera.x) * scale,
        y: (y - this.camera.y) * scale, w: box.w * scale, h: box.h * scale, color,
      }); // prettier-ignore
    };
    if (box.isOpen) {
      const fill = this.theme.groups[depth % 2];
      record(fill);
      g.fillStyle = fill;
      g.fillRect(x, y, box.w, box.h);
      if (!isLarge) return;
      g.strokeStyle = box.key === this.selected ? this.theme.accent : this.theme.line;
      g.lineWidth = (box.key === this.selected ? 2.5 : 0.8) / Math.max(0.6, Math.min(scale, 1));
      g.strokeRect(x, y, box.w, box.h);
      this.groupTitle(g, box, x, y);
      if (box.h * scale < 30) return;
      if (scale > 0.06) this.edges(g, box, x, y, view);
      for (const child of box.children) this.box(g, child, x, y, depth + 1, view);
      return;
    }
    const color = this.colorOf(box);
    record(color);
    g.fillStyle = color;
    if (!isLarge) {
      g.fillRect(x, y, box.w, box.h);
      return;
    }
    const isStack = box.item.kind === "group" && this.scene.groups[box.item.group].kind === "repeat";
    if (isStack && scale > 0.3) {
      g.globalAlpha = 0.5;
      round(g, x + 6, y + 5, box.w, box.h, 6);
      g.fill();
      round(g, x + 3, y + 2.5, box.w, box.h, 6);
      g.fill();
      g.globalAlpha = 1;
    }
    const status = box.item.kind === "node" ? this.scene.status(box.item.row) : "kept";
    g.globalAlpha = status === "removed" ? 0.55 : 1;
    round(g, x, y, box.w, box.h, box.item.kind === "node" ? 5 : box.item.kind === "group" ? 6 : box.h / 2);
    g.fill();
    this.border(g, box, x, y, status === "removed");
    g.globalAlpha = 1;
    if (scale > 0.25) this.label(g, box, x, y, scale);
  }

  private border(g: CanvasRenderingContext2D, box: Box, x: number, y: number, isGone: boolean): void {
    const isSelected = box.key === this.selected;
    const isMarked = this.marked.size > 0 && this.holdsMarked(box);
    if (this.camera.scale < 0.15 && !isSelected && !isMarked) return;
    g.strokeStyle = isSelected || isMarked ? this.theme.accent : this.theme.line;
    g.lineWidth = isSelected ? 3 : isMarked ? 2 : box.item.kind === "group" ? 1.2 : 0.7;
    if (isGone) g.setLineDash([4, 3]);
    round(g, x, y, box.w, box.h, box.item.kind === "node" ? 5 : box.item.kind === "group" ? 6 : box.h / 2);
    g.stroke();
    if (isGone) g.setLineDash([]);
  }

  private holdsMarked(box: Box): boolean {
    if (box.item.kind === "node") return this.marked.has(box.item.row);
    if (box.item.kind !== "group") return false;
    const group = this.scene.groups[box.item.group];
    for (const row of this.marked) if (group.first <= row && row < group.end) return true;
    return false;
  }

  private label(g: CanvasRenderingContext2D, box: Box, x: number, y: number, scale: number): void {
    g.fillStyle = this.theme.text;
    g.textAlign = "center";
    if (box.item.kind === "in" || box.item.kind === "out") {
      g.font = detailFont;
      g.fillText(box.title, x + box.w / 2, y + box.h / 2 + 0.5, box.w - 8);
      return;
    }
    const hasDetail = box.detail !== "" && scale > 0.4;
    g.font = titleFont;
    g.fillText(box.title, x + box.w / 2, y + (hasDetail ? box.h / 2 - 7 : box.h / 2), box.w - 8);
    if (!hasDetail) return;
    g.font = detailFont;
    g.fillStyle = this.theme.faint;
    g.fillText(box.detail, x + box.w / 2, y + box.h / 2 + 9, box.w - 8);
  }

  // Titles of open groups stay readable when everything is small, as far as there is room.
  private groupTitle(g: CanvasRenderingContext2D, box: Box, x: number, y: number): void {
    const scale = this.camera.scale;
    // Larger than its line only where what is under it is too small to read.
    const size = Math.min(12 / Math.min(scale, 1), scale < 0.12 ? box.h / 8 : 19);
    if (size * scale < 6) return;
    g.font = titleFont.replace("12px", `${size}px`);
    g.fillStyle = this.theme.faint;
    g.textAlign = "left";
    g.fillText(`${box.title}${box.detail && scale > 0.5 ? `  ·  ${box.detail}` : ""}`, x + 8, y + 4 + size * 0.7, box.w - 16);
  }

  private edges(g: CanvasRenderingContext2D, box: Box, dx: number, dy: number, view: View): void {
    const scale = this.camera.scale;
    g.lineWidth = 1 / Math.max(scale, 0.5);
    g.strokeStyle = this.theme.line;
    g.fillStyle = this.theme.line;
    const later: [Edge, string][] = [];
    g.beginPath();
    for (const e of box.edges) {
      if (!e.shown || e.points.length < 2 || isOutside(e.points, dx, dy, view)) continue;
      const color = this.edgeColor(e);
      if (color) later.push([e, color]);
      else line(g, e.points, dx, dy);
    }
    g.stroke();
    if (scale > 0.35) {
      g.beginPath();
      for (const e of box.edges) if (e.shown && e.points.length >= 2 && !isOutside(e.points, dx, dy, view)) arrow(g, e.points, dx, dy);
      g.fill();
    }
    for (const [e, color] of later) {
      g.strokeStyle = g.fillStyle = color;
      g.lineWidth = 2.4 / Math.max(scale, 0.5);
      g.beginPath();
      line(g, e.points, dx, dy);
      g.stroke();
      g.beginPath();
      arrow(g, e.points, dx, dy);
      g.fill();
    }
  }

  // Edges of the selected node.
  private edgeColor(e: Edge): string | null {
    if (this.selectedRow < 0) return null;
    for (let i = 0; i < e.values.length; i += 2) {
      if (e.values[i + 1] === this.selectedRow) return this.theme.producer;
      if (this.scene.valueRow[e.values[i]] === this.selectedRow) return this.theme.user;
    }
    return null;
  }

  private colorOf(box: Box): string {
    if (box.item.kind === "node") return this.colors.of(box.item.row);
    if (box.item.kind === "group") return this.groupColor(box.item.group);
    return this.theme.groups[1];
  }

  // A closed group: what the step did in it, or what its nodes have of a measure together.
  private groupColor(index: number): string {
    const group = this.scene.groups[index];
    if (this.colors.mode === "status") {
      const first = this.firstOf(group.first, group.end);
      if (first >= 0) return this.colors.of(first);
      return this.isDark ? "#2b313c" : "#eef1f5";
    }
    return this.colors.ofRows(group.first, group.end) ?? (this.isDark ? "#2a3342" : "#e3ebf7");
  }

  private firstOf(first: number, end: number): number {
    for (let r = first; r < end; ++r) {
      const s = this.scene.status(r);
      if (s === "added" || s === "removed" || s === "changed") return r;
    }
    return -1;
  }

  private isShown(box: Box): boolean {
    if (box.item.kind === "node") return this.scene.isShown(box.item.row);
    if (box.item.kind === "group") {
      const { first, end } = this.scene.groups[box.item.group];
      return first === end || this.scene.shownIn(first, end) > 0;
    }
    return !box.isIdle;
  }
}

interface View {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function isOutside(points: Point[], dx: number, dy: number, view: View): boolean {
  let left = Infinity, right = -Infinity; // prettier-ignore
  for (const p of points) {
    left = Math.min(left, p.x);
    right = Math.max(right, p.x);
  }
  return points[0].y + dy > view.bottom || points[points.length - 1].y + dy < view.top || left + dx > view.right ||
    right + dx < view.left; // prettier-ignore
}

function line(g: CanvasRenderingContext2D, points: Point[], dx: number, dy: number): void {
  g.moveTo(points[0].x + dx, points[0].y + dy);
  for (let i = 1; i < points.length - 1; ++i) {
    const next = points[i + 1];
    const isLast = i === points.length - 2;
    const end = isLast ? next : { x: (points[i].x + next.x) / 2, y: (points[i].y + next.y) / 2 };
    g.quadraticCurveTo(points[i].x + dx, points[i].y + dy, end.x + dx, end.y + dy);
  }
  if (points.length === 2) g.lineTo(points[1].x + dx, points[1].y + dy);
}

function arrow(g: CanvasRenderingContext2D, points: Point[], dx: number, dy: number): void {
  const tip = points[points.length - 1];
  const from = points[points.length - 2];
  const length = Math.hypot(tip.x - from.x, tip.y - from.y) || 1;
  const ux = (tip.x - from.x) / length;
  const uy = (tip.y - from.y) / length;
  g.moveTo(tip.x + dx, tip.y + dy);
  g.lineTo(tip.x + dx - 7 * ux + 3 * uy, tip.y + dy - 7 * uy - 3 * ux);
  g.lineTo(tip.x + dx - 7 * ux - 3 * uy, tip.y + dy - 7 * uy + 3 * ux);
}

function round(g: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number): void {
  g.beginPath();
  g.roundRect(x, y, w, h, r);
}
