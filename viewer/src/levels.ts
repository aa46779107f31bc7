// The children of a group and the edges between them.
import type { Scene } from "./scene";

export type Item =
  | { kind: "node"; row: number }
  | { kind: "group"; group: number }
  | { kind: "in"; values: number[]; label: string }
  | { kind: "out"; values: number[]; label: string };

export interface LevelEdge {
  from: number; // items
  to: number;
  values: number[]; // pairs: value, row that reads it (-1: the result of the group)
}

export interface Level {
  items: Item[];
  edges: LevelEdge[];
}

const mostPorts = 16; // on one side of a group; the others share one

// What a group shows when it is open. Values from outside come in at the top, and those that others read leave
// at the bottom.
export function levelOf(scene: Scene, index: number): Level {
  const group = scene.groups[index];
  const items: Item[] = [];
  const itemOf = new Int32Array(group.end - group.first);
  children(scene, index, items, itemOf);

  const edges = new Map<number, LevelEdge>();
  const connect = (from: number, to: number, value: number, reader: number): void => {
    const key = from * 65536 + to;
    const known = edges.get(key);
    if (known) known.values.push(value, reader);
    else edges.set(key, { from, to, values: [value, reader] });
  };
  const inside = (row: number): boolean => group.first <= row && row < group.end;
  // Inputs of graphs inside of this group are not seen here.
  const isHidden = (block: number): boolean => {
    const other = scene.groups[scene.blocks[block].group];
    return scene.blocks[block].group !== index && group.first <= other.first && other.end <= group.end &&
      other.owner >= 0 && inside(other.owner); // prettier-ignore
  };

  const ports = new Map<number, number>(); // items, by value
  const entries: number[] = [];
  // The item of a port: one of its own for the first `mostPorts` on its side, a share of the last one for the rest.
  const addPort = (side: number[], kind: "in" | "out", value: number, label: string): number => {
    if (side.length < mostPorts) {
      items.push({ kind, values: [value], label });
      side.push(items.length - 1);
      return items.length - 1;
    }
    const at = side[mostPorts - 1];
    const item = items[at] as { values: number[]; label: string };
    item.values.push(value);
    item.label = `${item.values.length} more`;
    return at;
  };
  const portOf = (value: number): number => {
    const at = ports.get(value) ?? addPort(entries, "in", value, scene.valueLabel(value));
    ports.set(value, at);
    return at;
  };

  if (group.block) for (const v of group.block.inputs) portOf(v);
  for (let row = group.first; row < group.end; ++row) {
    const to = itemOf[row - group.first];
    scene.everyInput(row, (value) => {
      const from = scene.valueRow[value];
      if (from >= 0 && inside(from)) {
        const a = itemOf[from - group.first];
        if (a !== to) connect(a, to, value, row);
      } else if (from >= 0 || !isHidden(scene.valueBlock[value])) {
        connect(portOf(value), to, value, row);
      }
    });
  }

  const exits: number[] = [];
  const leave = (value: number, label: string, from: number): void => {
    connect(from, addPort(exits, "out", value, label), value, -1);
  };
  if (group.block) {
    for (const { name, ref } of group.block.outputs) {
      if (ref < 0) continue;
      const row = scene.valueRow[ref];
      leave(ref, name, row >= 0 && inside(row) ? itemOf[row - group.first] : portOf(ref));
    }
  } else {
    for (let row = group.first; row < group.end; ++row) {
      for (let v = scene.firstValue[row]; v < scene.firstValue[row + 1]; ++v) {
        let used = scene.isOutput[v] === 1;
        for (let u = scene.userStart[v]; u < scene.userStart[v + 1] && !used; ++u) used = !inside(scene.userRow[u]);
        if (used) leave(v, scene.valueLabel(v), itemOf[row - group.first]);
      }
    }
  }
  return { items, edges: [...edges.values()] };
}

function children(scene: Scene, index: number, items: Item[], itemOf: Int32Array): void {
  const group = scene.groups[index];
  const groups = group.children.filter((g) => scene.groups[g].end > scene.groups[g].first);
  let next = 0;
  for (let row = group.first; row < group.end; ) {
    const child = next < groups.length && scene.groups[groups[next]].first === row ? groups[next++] : -1;
    const end = child >= 0 ? scene.groups[child].end : scene.rowEnd(row);
    itemOf.fill(items.length, row - group.first, end - group.first);
    items.push(child >= 0 ? { kind: "group", group: child } : { kind: "node", row });
    row = end;
  }
}
