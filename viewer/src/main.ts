// The page of `sardonyx view`: a drawing, a panel, search, colors and a slider over steps.
import { Colors } from "./colors";
import { type Drawn, Painter, detailFont, titleFont } from "./draw";
import { type Box, Layout } from "./layout";
import { Panel, element } from "./panel";
import { Scene } from "./scene";
import { Search } from "./search";

const mostAtOnce = 3000; // nodes that "open" adds
const margin = 30;

function get<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

class App {
  readonly scene: Scene;
  readonly colors: Colors;
  readonly painter: Painter;
  readonly layout: Layout;
  readonly panel: Panel;
  root: Box;
  frames = 0;
  private readonly searching: Search;
  private readonly canvas = get<HTMLCanvasElement>("canvas");
  private readonly map = get<HTMLCanvasElement>("map");
  private readonly g: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;
  private isWaiting = false;
  private isMapOld = true;
  private mapScale = 1;
  private found: number[] = [];
  private chosen = -1;

  constructor() {
    const text = get("scene").textContent ?? "";
    this.scene = new Scene(text);
    const g = this.canvas.getContext("2d", { alpha: false });
    if (!g) throw new Error("this browser cannot draw");
    this.g = g;
    this.colors = new Colors(this.scene);
    this.painter = new Painter(this.scene, this.colors);
    this.layout = new Layout(this.scene, (t, isTitle) => {
      g.font = isTitle ? titleFont : detailFont;
      return g.measureText(t).width;
    });
    this.searching = new Search(this.scene);
    this.panel = new Panel(get("panel"), this.scene, (row) => this.reveal(row));
    document.title = `${this.scene.title} – Sardonyx`;
    get("title").textContent = this.scene.title;
    this.root = this.layout.root(this.scene.functions[0]);
    this.openSmall();
    this.setUp();
    this.resize();
    this.setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches);
    this.start();
    this.panel.showModel();
  }

  // All of it, or the top of what would be too small to read.
  private start(): void {
    this.fit();
    const camera = this.painter.camera;
    const readable = Math.min(0.85, (this.width - 2 * margin) / this.root.w);
    if (camera.scale >= 0.5 || readable <= camera.scale) return;
    this.painter.camera = { scale: readable, x: this.root.w / 2 - this.width / readable / 2, y: -margin / readable };
  }

  // Small models, and what is alone in its level, open at once.
  private openSmall(): void {
    const mostShown = 60;
    const leaves = (box: Box): Box[] => (box.isOpen ? box.children.flatMap(leaves) : [box]);
    for (let i = 0; i < 12; ++i) {
      const shown = leaves(this.root);
      const closed = shown.filter((b) => this.layout.canOpen(b.item));
      const more = closed.reduce((sum, b) => sum + this.countOf(b), 0);
      if (closed.length === 0 || shown.length + more > mostShown) return;
      for (const b of closed) this.layout.open.add(b.key);
      this.root = this.layout.root(this.item(this.root));
    }
  }

  // --- drawing

  private redraw(): void {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.paint();
    });
  }

  // Paper takes light colors, more points, and the drawing as it is on the screen.
  private wasDark = false;
  private isPrinting = false;
  private print(isPrinting: boolean): void {
    if (isPrinting === this.isPrinting) return;
    this.isPrinting = isPrinting;
    if (isPrinting) this.wasDark = this.painter.isDark;
    if (this.wasDark) this.setTheme(!isPrinting);
    this.resize();
    this.paint(); // now: no frame comes before the page is printed
  }

  private ratio(): number {
    return Math.max(window.devicePixelRatio || 1, this.isPrinting ? 2 : 1);
  }

  paint(): void {
    const ratio = this.ratio();
    this.painter.paint(this.g, this.root, this.width, this.height, ratio);
    this.paintMap(ratio);
    ++this.frames;
  }

  private resize(): void {
    const box = get("drawing").getBoundingClientRect();
    const ratio = this.ratio();
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.max(1, Math.round(box.width * ratio));
    this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    this.isMapOld = true;
    this.redraw();
  }

  // The whole drawing, small; made once for each layout.
  private readonly mapImage = document.createElement("canvas");
  private paintMap(ratio: number): void {
    const [w, h] = [Math.min(150, this.width / 4), Math.min(190, this.height / 3)];
    if (w < 20 || h < 20) return;
    this.mapScale = Math.min(w / this.root.w, h / this.root.h);
    const [mw, mh] = [Math.max(8, this.root.w * this.mapScale), Math.max(8, this.root.h * this.mapScale)];
    const g = this.map.getContext("2d");
    const small = this.mapImage.getContext("2d");
    if (!g || !small) return;
    if (this.isMapOld) {
      for (const c of [this.map, this.mapImage]) {
        c.width = Math.round(mw * ratio);
        c.height = Math.round(mh * ratio);
      }
      this.map.style.width = `${mw}px`;
      this.map.style.height = `${mh}px`;
      const [camera, drawn] = [this.painter.camera, this.painter.drawn];
      this.painter.camera = { x: 0, y: 0, scale: this.mapScale };
      this.painter.paint(small, this.root, mw, mh, ratio);
      this.painter.camera = camera;
      this.painter.drawn = drawn;
      this.isMapOld = false;
    }
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.drawImage(this.mapImage, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { x, y, scale } = this.painter.camera;
    g.strokeStyle = this.painter.theme.accent;
    g.lineWidth = 1.5;
    const s = this.mapScale;
    g.strokeRect(x * s, y * s, (this.width / scale) * s, (this.height / scale) * s);
  }

  // --- opening and closing

  private relayout(): void {
    this.root = this.layout.root(this.item(this.root));
    this.updateEdges();
    this.isMapOld = true;
    this.redraw();
  }

  private item(box: Box): number {
    return box.item.kind === "group" ? box.item.group : -1;
  }

  // Opens or closes a box, which stays where it is on the screen.
  toggle(key: string): void {
    const before = this.place(key);
    if (!this.layout.open.delete(key)) this.layout.open.add(key);
    this.relayout();
    const after = this.place(key);
    if (before && after) {
      this.painter.camera.x += after.x - before.x;
      this.painter.camera.y += after.y - before.y;
    }
  }

  // Opens one more level, at most so many nodes. Returns whether something opened.
  openLevel(most = mostAtOnce): boolean {
    let added = 0;
    const start = performance.now();
    const visit = (box: Box): void => {
      for (const child of box.children) {
        if (child.isOpen) visit(child);
        else if (this.layout.canOpen(child.item) && added < most && performance.now() - start < 2000) {
          this.layout.open.add(child.key);
          added += this.countOf(child);
        }
      }
    };
    visit(this.root);
    if (added > 0) this.relayout();
    return added > 0;
  }

  private countOf(box: Box): number {
    const groups = box.item.kind === "group" ? [box.item.group] : box.item.kind === "node" ? this.layout.inside(box.item.row) : [];
    return groups.reduce((sum, g) => sum + this.layout.level(g).items.length, 0);
  }

  closeAll(): void {
    this.layout.open.clear();
    this.relayout();
    this.fit();
  }

  // --- finding places

  // The corner and size of a box, in the drawing.
  private place(key: string): { box: Box; x: number; y: number } | null {
    let [x, y] = [0, 0];
    let box = this.root;
    while (box.key !== key) {
      const child = box.children.find((c) => key === c.key || key.startsWith(`${c.key}/`));
      if (!child) return null;
      x += child.x;
      y += child.y;
      box = child;
    }
    return { box, x, y };
  }

  private boxAt(px: number, py: number): Box {
    let x = this.painter.camera.x + px / this.painter.camera.scale;
    let y = this.painter.camera.y + py / this.painter.camera.scale;
    let box = this.root;
    for (;;) {
      x -= box.x;
      y -= box.y;
      const inner = box.children.find((c) => c.x <= x && x <= c.x + c.w && c.y <= y && y <= c.y + c.h && this.isShown(c));
      if (!inner) return box;
      box = inner;
    }
  }

  private isShown(box: Box): boolean {
    if (box.item.kind === "node") return this.scene.isShown(box.item.row);
    if (box.item.kind !== "group") return !box.isIdle;
    const g = this.scene.groups[box.item.group];
    return g.first === g.end || this.scene.shownIn(g.first, g.end) > 0;
  }

  // Opens what a row is in, selects it and moves there.
  reveal(row: number): void {
    let group = this.deepest(row);
    const path: string[] = [`r${row}`];
    for (; this.scene.groups[group].kind !== "function"; group = this.scene.groups[group].parent) {
      path.unshift(String(group));
      if (this.scene.groups[group].owner >= 0) path.unshift(`r${this.scene.groups[group].owner}`);
    }
    if (group !== this.item(this.root)) this.showFunction(group);
    let key = this.root.key;
    for (const part of path.slice(0, -1)) {
      key += `/${part}`;
      // The body of a node has no place of its own in the set: it opens with the node.
      this.layout.open.add(key);
    }
    this.relayout();
    this.select(`${key}/r${row}`);
    this.center(`${key}/r${row}`);
  }

  private deepest(row: number): number {
    let at = -1;
    for (let g = 0; g < this.scene.groups.length && this.scene.groups[g].first <= row; ++g) {
      if (row < this.scene.groups[g].end) at = g;
    }
    return at;
  }

  select(key: string | null): void {
    this.painter.selected = key;
    const place = key === null ? null : this.place(key);
    this.painter.selectedRow = place?.box.item.kind === "node" ? place.box.item.row : -1;
    if (place?.box.item.kind === "node") this.panel.showNode(place.box.item.row);
    else if (place?.box.item.kind === "group" && place.box !== this.root) this.panel.showGroup(place.box.item.group);
    else if (place && (place.box.item.kind === "in" || place.box.item.kind === "out")) this.showPort(place.box);
    else this.panel.showModel();
    this.redraw();
  }

  // A value that enters or leaves a group: where it comes from.
  private showPort(box: Box): void {
    if (box.item.kind !== "in" && box.item.kind !== "out") return;
    const rows = box.item.values.map((v) => this.scene.valueRow[v]).filter((r) => r >= 0);
    const list = element("div", {}, element("h2", {}, box.title));
    for (const v of box.item.values.slice(0, 200)) {
      const row = this.scene.valueRow[v];
      const line = element("p", {}, element("code", {}, `${this.scene.valueLabel(v)}: ${this.scene.type(v)}`), " ");
      if (row >= 0) {
        const button = element("button", { className: "link", type: "button" }, `made by ${this.scene.op(row).name} ${this.scene.names[row]}`);
        button.addEventListener("click", () => this.reveal(row));
        line.append(button);
      }
      for (const user of this.scene.users_of(v).slice(0, 20)) {
        const button = element("button", { className: "link", type: "button" }, `${this.scene.op(user).name} ${this.scene.names[user]}`);
        button.addEventListener("click", () => this.reveal(user));
        line.append(" → ", button);
      }
      list.append(line);
    }
    void rows;
    get("panel").replaceChildren(list);
  }

  center(key: string): void {
    const place = this.place(key);
    if (!place) return;
    const camera = this.painter.camera;
    camera.scale = Math.min(1.4, Math.max(camera.scale, 0.7));
    camera.x = place.x + Math.min(place.box.w, this.width / camera.scale) / 2 - this.width / camera.scale / 2;
    camera.y = place.y + Math.min(place.box.h, this.height / camera.scale) / 2 - this.height / camera.scale / 2;
    this.redraw();
  }

  fit(): void {
    const scale = Math.min((this.width - 2 * margin) / this.root.w, (this.height - 2 * margin) / this.root.h, 1.3);
    this.painter.camera = {
      scale, x: this.root.w / 2 - this.width / scale / 2, y: this.root.h / 2 - this.height / scale / 2,
    }; // prettier-ignore
    this.redraw();
  }

  zoom(factor: number, px = this.width / 2, py = this.height / 2): void {
    const camera = this.painter.camera;
    const scale = Math.min(4, Math.max(0.002, camera.scale * factor));
    camera.x += px / camera.scale - px / scale;
    camera.y += py / camera.scale - py / scale;
    camera.scale = scale;
    this.redraw();
  }

  pan(dx: number, dy: number): void {
    this.painter.camera.x += dx / this.painter.camera.scale;
    this.painter.camera.y += dy / this.painter.camera.scale;
    this.redraw();
  }

  // To the producer or user, or the neighbor in the same level, that is nearest.
  private walk(direction: "up" | "down" | "left" | "right"): void {
    const here = this.painter.selected ? this.place(this.painter.selected) : null;
    if (!here || !here.box.parent) {
      if (this.root.children.length > 0) this.selectAndShow(this.root.children[0].key);
      return;
    }
    const level = here.box.parent.children.filter((b) => this.isShown(b) && b !== here.box);
    const center = (b: Box): [number, number] => [b.x + b.w / 2, b.y + b.h / 2];
    const [x, y] = center(here.box);
    let best: Box | null = null;
    let least = Infinity;
    for (const b of level) {
      const [bx, by] = center(b);
      const ahead = direction === "up" ? y - by : direction === "down" ? by - y : direction === "left" ? x - bx : bx - x;
      const aside = direction === "up" || direction === "down" ? Math.abs(bx - x) : Math.abs(by - y);
      if (ahead > 1 && ahead + 2.5 * aside < least) [best, least] = [b, ahead + 2.5 * aside];
    }
    if (best) this.selectAndShow(best.key);
  }

  private selectAndShow(key: string): void {
    this.select(key);
    const place = this.place(key);
    if (!place) return;
    const { x, y, scale } = this.painter.camera;
    const [left, top] = [(place.x - x) * scale, (place.y - y) * scale];
    if (left < 0 || top < 0 || left + place.box.w * scale > this.width || top + place.box.h * scale > this.height) this.center(key);
  }

  // --- steps, colors, search

  setStep(step: number): void {
    this.scene.setStep(Math.max(0, Math.min(this.scene.steps.length - 1, step)));
    const s = this.scene.steps[this.scene.step];
    get<HTMLInputElement>("step").value = String(this.scene.step);
    const time = s.seconds > 0 ? `, ${(1000 * s.seconds).toPrecision(2)} ms` : "";
    const change = this.scene.step === 0 ? "" : `: ${s.added} added, ${s.removed} removed, ${s.changed} changed`;
    get("what").textContent = `${this.scene.step + 1}/${this.scene.steps.length}  ${s.label}${change}  (${s.nodes} nodes${time})`;
    this.updateEdges();
    this.isMapOld = true;
    this.colors.choose(this.colors.mode);
    this.showLegend();
    const selected = this.painter.selected;
    this.select(selected);
  }

  // An edge is there while one of its values is read along it.
  private updateEdges(): void {
    if (this.scene.steps.length < 2) return;
    const visit = (box: Box): void => {
      for (const c of box.children) c.isIdle = box !== this.root && (c.item.kind === "in" || c.item.kind === "out");
      for (const e of box.edges) {
        e.shown = false;
        for (let i = 0; i < e.values.length && !e.shown; i += 2) {
          const from = this.scene.valueRow[e.values[i]];
          const to = e.values[i + 1];
          e.shown = (from < 0 || this.scene.isShown(from)) && (to < 0 || (this.scene.isShown(to) && this.scene.inputs(to).includes(e.values[i])));
        }
        if (e.shown) box.children[e.from].isIdle = box.children[e.to].isIdle = false;
      }
      for (const c of box.children) if (c.isOpen) visit(c);
    };
    visit(this.root);
  }

  setColor(mode: string): void {
    this.colors.choose(mode);
    get<HTMLSelectElement>("color").value = mode;
    this.isMapOld = true;
    this.showLegend();
    this.redraw();
  }

  private showLegend(): void {
    get("legend").replaceChildren(
      ...this.colors.legend().map(({ color, label }) => {
        const mark = element("i");
        mark.style.background = color;
        return element("li", {}, mark, label);
      }),
    );
  }

  setTheme(isDark: boolean): void {
    this.painter.isDark = this.colors.isDark = isDark;
    document.documentElement.classList.toggle("dark", isDark);
    get("theme").textContent = isDark ? "light" : "dark";
    this.setColor(this.colors.mode);
  }

  search(query: string): number[] {
    const mostListed = 100;
    this.found = this.searching.find(query);
    this.chosen = -1;
    this.painter.marked = new Set(this.found.length <= 2000 ? this.found : []);
    const list = get("found");
    list.hidden = query.trim() === "";
    list.replaceChildren(
      element("li", { className: "faint" }, this.found.length === 0 ? "nothing found" : `${this.found.length} found`),
      ...this.found.slice(0, mostListed).map((row) => {
        const v = this.scene.firstValue[row];
        const type = v < this.scene.firstValue[row + 1] ? this.scene.type(v) : "";
        const button = element("button", { type: "button" }, `${this.scene.op(row).name}  ${this.scene.label(row)}  ${type}`);
        button.addEventListener("click", () => this.reveal(row));
        return element("li", {}, button);
      }),
    );
    this.isMapOld = true;
    this.redraw();
    return this.found;
  }

  private choose(by: number): void {
    const buttons = [...get("found").querySelectorAll("button")];
    if (buttons.length === 0) return;
    this.chosen = (this.chosen + by + buttons.length) % buttons.length;
    buttons.forEach((b, i) => b.classList.toggle("chosen", i === this.chosen));
    buttons[this.chosen].scrollIntoView({ block: "nearest" });
    this.reveal(this.found[this.chosen]);
  }

  showFunction(group: number): void {
    this.root = this.layout.root(group);
    get<HTMLSelectElement>("function").value = String(group);
    this.updateEdges();
    this.isMapOld = true;
    this.select(null);
    this.fit();
  }

  // --- events

  private setUp(): void {
    const click = (id: string, run: () => void): void => get(id).addEventListener("click", run);
    click("fit", () => this.fit());
    click("open", () => {
      get("note").textContent = this.openLevel() ? "" : "everything is open";
    });
    click("close", () => this.closeAll());
    click("print", () => window.print());
    click("theme", () => this.setTheme(!this.painter.isDark));
    click("earlier", () => this.setStep(this.scene.step - 1));
    click("later", () => this.setStep(this.scene.step + 1));
    const colors = get<HTMLSelectElement>("color");
    colors.append(...this.colors.modes().map(([value, label]) => element("option", { value }, label)));
    colors.addEventListener("change", () => this.setColor(colors.value));
    this.colors.choose(this.scene.color || (this.scene.steps.length > 1 ? "status" : "kind"));
    colors.value = this.colors.mode;
    const functions = get<HTMLSelectElement>("function");
    functions.hidden = this.scene.functions.length < 2;
    functions.append(
      ...this.scene.functions.map((g) => element("option", { value: String(g) }, this.scene.groups[g].label || "graph")),
    );
    functions.addEventListener("change", () => this.showFunction(Number(functions.value)));
    if (this.scene.steps.length > 1) {
      const slider = get<HTMLInputElement>("step");
      get("steps").hidden = false;
      slider.max = String(this.scene.steps.length - 1);
      slider.addEventListener("input", () => this.setStep(Number(slider.value)));
      this.setStep(this.scene.steps.length - 1);
    }
    const search = get<HTMLInputElement>("search");
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (e) => {
      if (e.key === "Enter" || e.key === "ArrowDown" || e.key === "ArrowUp") {
        e.preventDefault();
        this.choose(e.key === "ArrowUp" || e.shiftKey ? -1 : 1);
      } else if (e.key === "Escape") {
        search.value = "";
        this.search("");
        this.canvas.focus();
      }
    });
    window.addEventListener("resize", () => this.resize());
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    document.addEventListener("keydown", (e) => this.key(e));
    this.followPointer();
    this.map.addEventListener("pointerdown", (e) => this.jump(e));
    this.map.addEventListener("pointermove", (e) => {
      if (e.buttons === 1) this.jump(e);
    });
  }

  private jump(e: PointerEvent): void {
    const camera = this.painter.camera;
    camera.x = e.offsetX / this.mapScale - this.width / camera.scale / 2;
    camera.y = e.offsetY / this.mapScale - this.height / camera.scale / 2;
    this.redraw();
  }

  private followPointer(): void {
    const fingers = new Map<number, { x: number; y: number }>();
    let moved = 0;
    this.canvas.addEventListener("pointerdown", (e) => {
      this.canvas.setPointerCapture(e.pointerId);
      fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      moved = 0;
    });
    this.canvas.addEventListener("pointermove", (e) => {
      const from = fingers.get(e.pointerId);
      if (!from) return;
      const [dx, dy] = [e.offsetX - from.x, e.offsetY - from.y];
      moved += Math.abs(dx) + Math.abs(dy);
      if (fingers.size === 1) {
        if (moved > 3) this.pan(-dx, -dy);
      } else {
        const other = [...fingers].find(([id]) => id !== e.pointerId)![1];
        const before = Math.hypot(from.x - other.x, from.y - other.y);
        const after = Math.hypot(e.offsetX - other.x, e.offsetY - other.y);
        if (before > 0) this.zoom(after / before, other.x, other.y);
      }
      fingers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    });
    const end = (e: PointerEvent): void => {
      if (fingers.delete(e.pointerId) && moved <= 3 && e.type === "pointerup") this.click(e.offsetX, e.offsetY);
    };
    this.canvas.addEventListener("pointerup", end);
    this.canvas.addEventListener("pointercancel", end);
    this.canvas.addEventListener(
      "wheel",
      (e) => {
        e.preventDefault();
        if (e.shiftKey) this.pan(e.deltaY, 0);
        else this.zoom(Math.exp(-Math.max(-120, Math.min(120, e.deltaY)) * 0.002), e.offsetX, e.offsetY);
      },
      { passive: false },
    );
  }

  // A click selects; on a group, or on what is selected, it opens or closes.
  click(px: number, py: number): void {
    const box = this.boxAt(px, py);
    if (box === this.root) {
      this.select(null);
      return;
    }
    const canToggle = this.layout.canOpen(box.item) && box.parent?.item.kind !== "node";
    const wasSelected = this.painter.selected === box.key;
    if (canToggle && !box.isOpen && (box.item.kind === "group" || wasSelected)) this.toggle(box.key);
    else if (canToggle && box.isOpen && wasSelected) this.toggle(box.key);
    this.select(box.key);
  }

  private key(e: KeyboardEvent): void {
    const at = document.activeElement;
    if (at instanceof HTMLInputElement || at instanceof HTMLSelectElement || e.ctrlKey || e.metaKey || e.altKey) return;
    const far = 80;
    const keys: Record<string, () => void> = {
      "/": () => get("search").focus(),
      "0": () => this.fit(),
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      o: () => get("open").click(),
      c: () => this.closeAll(),
      d: () => this.setTheme(!this.painter.isDark),
      w: () => this.pan(0, -far),
      s: () => this.pan(0, far),
      a: () => this.pan(-far, 0),
      f: () => this.pan(far, 0),
      ArrowUp: () => this.walk("up"),
      ArrowDown: () => this.walk("down"),
      ArrowLeft: () => this.walk("left"),
      ArrowRight: () => this.walk("right"),
      "[": () => this.setStep(this.scene.step - 1),
      "]": () => this.setStep(this.scene.step + 1),
      Escape: () => this.select(null),
      Enter: () => {
        const place = this.painter.selected ? this.place(this.painter.selected) : null;
        if (place && this.layout.canOpen(place.box.item)) this.toggle(place.box.key);
      },
    };
    const run = keys[e.key];
    if (!run || (e.key === "[" && this.scene.steps.length < 2) || (e.key === "]" && this.scene.steps.length < 2)) return;
    if (e.key === "Enter" && at instanceof HTMLButtonElement) return;
    e.preventDefault();
    run();
  }

  // --- for tests

  drawn(): Drawn[] {
    this.paint();
    return this.painter.drawn;
  }
}

declare global {
  interface Window {
    sardonyx?: App;
    sardonyxError?: string;
  }
}

try {
  window.sardonyx = new App();
} catch (e) {
  window.sardonyxError = String(e);
  document.body.prepend(element("p", {}, `This page cannot be shown: ${String(e)}`));
  throw e;
}
