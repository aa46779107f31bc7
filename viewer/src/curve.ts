// Errors over bytes of what optimize --max-error tried, as a drawing.
import { errorText, quantity } from "./colors";
import type { Curve } from "./scene";

function shape(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

// A point for each that has a finite error; the chosen one is filled.
export function drawing(curve: Curve): SVGElement {
  const [wide, high, left] = [210, 120, 60];
  const points = curve.points.filter((p) => p.error !== null);
  const most = Math.max(...points.map((p) => p.error ?? 0)) || 1;
  const largest = Math.max(...points.map((p) => p.bytes)) || 1;
  const place = (p: (typeof points)[0]): [number, number] => [
    left + (wide * p.bytes) / largest, 10 + high * (1 - (p.error ?? 0) / most),
  ]; // prettier-ignore
  const svg = shape("svg", { class: "curve", width: left + wide + 12, height: high + 34, role: "img" });
  const line = points.map(place).sort((a, b) => a[0] - b[0]);
  svg.append(
    shape("title", {}, "error over bytes of constants"),
    shape("path", { class: "axes", d: `M${left} 10V${high + 10}H${left + wide}` }),
    shape("polyline", { points: line.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") }),
    shape("text", { x: left - 6, y: 14, "text-anchor": "end" }, errorText(most)),
    shape("text", { x: left - 6, y: high + 10, "text-anchor": "end" }, "error"),
    shape("text", { x: left + wide, y: high + 26, "text-anchor": "end" }, `${quantity(largest)}B of constants`),
  );
  for (const p of points) {
    const [x, y] = place(p);
    const isChosen = p === curve.points[curve.chosen];
    const circle = shape("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 4, class: isChosen ? "chosen" : "" });
    circle.append(shape("title", {}, `${p.types}: ${quantity(p.bytes)}B, ${errorText(p.error ?? 0)}`));
    svg.append(circle);
  }
  return svg;
}
