// Builds the page of `sardonyx view`, viewer/page.html: style and script in one file, with a place for the graph.
//
//     node viewer/build.mjs OUTPUT
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2];
const bundled = await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
});
const license = readFileSync(join(here, "node_modules/@dagrejs/dagre/LICENSE"), "utf8").trim();
const { code: style } = await (await import("esbuild")).transform(readFileSync(join(here, "src/page.css"), "utf8"), { loader: "css", minify: true });
// "</script" inside of the script would end it.
const script = `/* Contains dagre and graphlib:\n${license} */\n${bundled.outputFiles[0].text}`.replaceAll("</script", "<\\/script");
const page = readFileSync(join(here, "src/page.html"), "utf8")
  .replace("@STYLE@", () => style.trim())
  .replace("@SCRIPT@", () => script);
mkdirSync(dirname(output), { recursive: true });
let old = "";
try {
  old = readFileSync(output, "utf8");
} catch {
  // not built yet
}
if (old !== page) writeFileSync(output, page);
console.log(`${output}: ${page.length} characters`);
