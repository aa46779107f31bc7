// Finds rows by name, operator, type or source line. All words must be found.
import type { Scene } from "./scene";

export class Search {
  private texts: string[] | null = null;
  private step = -1;

  constructor(private readonly scene: Scene) {}

  find(query: string): number[] {
    const words = query.toLowerCase().split(/\s+/).filter((w) => w !== "");
    if (words.length === 0) return [];
    if (this.texts === null || this.step !== this.scene.step) {
      this.texts = this.build();
      this.step = this.scene.step;
    }
    const found: number[] = [];
    for (let row = 0; row < this.texts.length; ++row) {
      if (this.scene.isShown(row) && words.every((w) => this.texts![row].includes(w))) found.push(row);
    }
    return found;
  }

  private build(): string[] {
    const scene = this.scene;
    const origins = new Map<[string, string][], string>();
    const texts: string[] = new Array(scene.rows);
    for (let row = 0; row < scene.rows; ++row) {
      const origin = scene.origin(row);
      let from = origins.get(origin);
      if (from === undefined) origins.set(origin, (from = origin.map(([, v]) => v).join(" ")));
      let text = `${scene.names[row]} ${scene.op(row).name}`;
      for (let v = scene.firstValue[row]; v < scene.firstValue[row + 1]; ++v) text += ` ${scene.valueNames[v]} ${scene.type(v)}`;
      for (const [k, v] of scene.attrs(row)) text += ` ${k}=${v}`;
      texts[row] = `${text} ${from}`.toLowerCase();
    }
    return texts;
  }
}
