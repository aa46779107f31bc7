// The panel beside the drawing. Texts of the model become text nodes, never markup.
import { errorText, quantity } from "./colors";
import { drawing } from "./curve";
import { type Constant, type Scene, absent } from "./scene";

type Child = Node | string | null;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((c): c is Node | string => c !== null));
  return made;
}

export function bytes(n: number): string {
  return n < 1000 ? `${n} B` : `${quantity(n)}B`;
}

export class Panel {
  constructor(
    private readonly at: HTMLElement,
    private readonly scene: Scene,
    private readonly go: (row: number) => void,
  ) {}

  showModel(): void {
    const scene = this.scene;
    const sizes = new Map<string, number>();
    for (let r = 0; r < scene.rows; ++r) {
      if (scene.isAlive(r)) sizes.set(scene.op(r).name, (sizes.get(scene.op(r).name) ?? 0) + 1);
    }
    const ops = [...sizes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    this.at.replaceChildren(
      element("h2", {}, scene.title),
      table(scene.facts),
      ...this.curve(),
      element("h3", {}, "Operators"),
      table(ops.map(([name, count]) => [name, String(count)])),
    );
  }

  // What optimize --max-error tried.
  private curve(): Node[] {
    const { curve } = this.scene;
    if (!curve) return [];
    const row = ({ types, bytes: size, error }: (typeof curve.points)[0]): [string, string] => [
      types, `${bytes(size)}, ${errorText(error ?? Infinity)}`,
    ]; // prettier-ignore
    return [element("h3", {}, "Error and size"), drawing(curve), table(curve.points.map(row), curve.chosen)];
  }

  showGroup(index: number): void {
    const scene = this.scene;
    const group = scene.groups[index];
    let parameters = 0;
    const sizes = new Map<string, number>();
    const amounts = new Map<string, number>();
    for (let r = group.first; r < group.end; ++r) {
      if (!scene.isAlive(r)) continue;
      parameters += scene.parameterBytes(r);
      sizes.set(scene.op(r).name, (sizes.get(scene.op(r).name) ?? 0) + 1);
      for (const [name, all] of Object.entries(scene.measures)) amounts.set(name, (amounts.get(name) ?? 0) + all[r]);
    }
    const path: string[] = [];
    for (let g = index; g >= 0; g = scene.groups[g].parent) {
      if (scene.groups[g].kind === "module") path.unshift(scene.groups[g].label);
    }
    const facts: [string, string][] = [
      ["nodes", String(scene.alive[group.end] - scene.alive[group.first])],
      ["parameters", bytes(parameters)],
    ];
    if (path.length > 0) facts.unshift(["module", path.join("/")]);
    if (group.copies > 0) facts.push(["copies", `${group.copies}, with the same operators and types in the same order`]);
    for (const [name, sum] of amounts) facts.push([name, quantity(sum)]);
    const ops = [...sizes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    this.at.replaceChildren(
      element("h2", {}, group.label || "graph"),
      table(facts),
      element("h3", {}, "Operators"),
      table(ops.map(([name, count]) => [name, String(count)])),
    );
  }

  showNode(row: number): void {
    const scene = this.scene;
    const op = scene.op(row);
    const status = scene.status(row);
    const parts: Child[] = [
      element("h2", {}, op.name),
      element("p", { className: "faint" }, `${op.domain ? `${op.domain}, ` : ""}${op.kind}, version ${op.version}`),
      status === "kept" ? null : element("p", { className: `status ${status}` }, status),
      scene.names[row] ? element("p", { className: "name" }, scene.names[row]) : null,
      element("h3", {}, "Operands"),
      this.operands(row),
      element("h3", {}, "Results"),
      this.results(row),
    ];
    const attrs = scene.attrs(row);
    if (attrs.length > 0) parts.push(element("h3", {}, "Attributes"), table(attrs));
    const amounts: [string, string][] = [["parameters", bytes(scene.parameterBytes(row))]];
    const stored = scene.storedType(row);
    if (stored) amounts.push(["weights stored as", stored]);
    for (const [name, all] of Object.entries(scene.measures)) amounts.push([name, quantity(all[row])]);
    parts.push(element("h3", {}, "Sizes"), table(amounts));
    const origin = scene.origin(row);
    if (origin.length > 0) parts.push(element("h3", {}, "Origin"), table(origin), ...this.sourceLines(origin));
    this.at.replaceChildren(...parts.filter((p): p is Node | string => p !== null));
    this.at.scrollTop = 0;
  }

  private link(row: number, text: string): HTMLElement {
    const button = element("button", { className: "link", type: "button" }, text);
    button.dataset["row"] = String(row);
    button.addEventListener("click", () => this.go(row));
    return button;
  }

  private operands(row: number): HTMLElement {
    const list = element("dl");
    this.scene.inputs(row).forEach((ref, i) => {
      if (ref === absent) return;
      list.append(element("dt", {}, this.scene.slot(row, i)));
      if (ref < absent) {
        list.append(this.constant(this.scene.constant(ref)));
        return;
      }
      const from = this.scene.valueRow[ref];
      const name = this.scene.valueLabel(ref);
      list.append(
        element(
          "dd", {}, from >= 0 ? this.link(from, name) : element("span", {}, name), " ",
          element("code", {}, this.scene.type(ref)),
          from >= 0 ? element("span", { className: "faint" }, ` ${this.scene.op(from).name}`) : null,
        ), // prettier-ignore
      );
    });
    return list;
  }

  private constant(c: Constant): HTMLElement {
    const dd = element("dd", {}, c.name ? element("span", {}, `${c.name} `) : null, element("code", {}, c.type));
    if (c.bytes > 64) dd.append(element("span", { className: "faint" }, ` ${bytes(c.bytes)}`));
    if (c.text) dd.append(element("div", { className: "value" }, c.text));
    if (c.histogram) {
      const most = Math.max(...c.histogram);
      const bars = element("div", { className: "bars", title: "how often values occur, from the smallest to the largest" });
      for (const n of c.histogram) {
        const bar = element("i");
        bar.style.height = `${Math.round((28 * n) / most)}px`;
        bars.append(bar);
      }
      dd.append(bars);
    }
    return dd;
  }

  private results(row: number): HTMLElement {
    const mostUsers = 40;
    const list = element("dl");
    for (let v = this.scene.firstValue[row]; v < this.scene.firstValue[row + 1]; ++v) {
      const error = this.scene.errorOf(v);
      list.append(
        element(
          "dt", {}, this.scene.valueLabel(v), " ", element("code", {}, this.scene.type(v)),
          error === null ? null : element("span", { className: "error" }, ` error ${errorText(error)}`),
        ), // prettier-ignore
      );
      const users = this.scene.users_of(v);
      const dd = element("dd", {}, users.length === 0 && !this.scene.isOutput[v] ? "not used" : "");
      for (const user of users.slice(0, mostUsers)) dd.append(this.link(user, `${this.scene.op(user).name} ${this.scene.names[user]}`), " ");
      if (users.length > mostUsers) dd.append(`and ${users.length - mostUsers} more`);
      if (this.scene.isOutput[v]) dd.append(element("span", { className: "faint" }, "a result of the graph"));
      list.append(dd);
    }
    return list;
  }

  // The text around a source line, where the page has the file.
  private sourceLines(origin: [string, string][]): Node[] {
    const around = 3;
    const parts: Node[] = [];
    for (const [key, text] of origin) {
      const found = key === "line" ? /^(.*):(\d+)(?: \(|$)/.exec(text) : null;
      const source = found ? this.scene.sources[found[1]] : undefined;
      if (!found || source === undefined) continue;
      const at = Number(found[2]);
      const lines = source.split("\n");
      const block = element("pre");
      for (let n = Math.max(1, at - around); n <= Math.min(lines.length, at + around); ++n) {
        block.append(element("span", { className: n === at ? "at" : "" }, `${String(n).padStart(4)}  ${lines[n - 1]}\n`));
      }
      parts.push(block);
    }
    return parts;
  }
}

// `chosen`: the number of a row that stands out.
function table(rows: [string, string][], chosen = -1): HTMLElement {
  const body = element("table");
  rows.forEach(([k, v], i) => {
    const className = i === chosen ? "chosen" : "";
    body.append(element("tr", { className }, element("th", {}, k), element("td", {}, v)));
  });
  return body;
}
