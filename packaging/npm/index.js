// Sardonyx in a browser or in Node: see index.d.ts.
const inBrowser = typeof Worker !== "undefined" && typeof window !== "undefined";

export class SardonyxError extends Error {
  constructor(message, code) {
    super(message);
    this.name = "SardonyxError";
    this.code = code;
  }
}

let compiled = null;

// The program, fetched and compiled once.
function program() {
  compiled ??= (async () => {
    const url = new URL("./sardonyx.wasm", import.meta.url);
    if (inBrowser) return WebAssembly.compileStreaming(fetch(url));
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  })();
  return compiled;
}

// Each call has a worker of its own: its memory is free again afterwards.
async function runInWorker(args, files) {
  const module = await program();
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  try {
    return await new Promise((resolve, reject) => {
      worker.onerror = (e) => reject(new SardonyxError(e.message || "the worker could not be started", "internal"));
      worker.onmessage = ({ data }) => (data.failed ? reject(new SardonyxError(data.failed, "internal")) : resolve(data));
      worker.postMessage({ module, args, files });
    });
  } finally {
    worker.terminate();
  }
}

async function runHere(args, files) {
  const { run } = await import("./host.js");
  const inMemory = {};
  for (const [name, data] of Object.entries(files)) {
    inMemory[name] = data instanceof Blob ? new Uint8Array(await data.arrayBuffer()) : data;
  }
  const result = run(await program(), args, inMemory);
  const outputs = {};
  for (const [name, file] of result.files) if (!(name in files)) outputs[name] = new Blob(file.blobParts());
  return { ...result, outputs };
}

export async function command(args, files = {}) {
  const { code, stdout, stderr, outputs, memory } = await (inBrowser ? runInWorker : runHere)(args, files);
  return { code, stdout, stderr, files: outputs, memory };
}

function reported(result) {
  let report;
  try {
    [report] = JSON.parse(result.stdout);
  } catch {
    throw new SardonyxError(result.stderr.trim() || `exit code ${result.code}`, "internal");
  }
  if (report.error) throw new SardonyxError([report.error.message, ...(report.error.notes ?? [])].join("\n"), report.error.code);
  return report;
}

// The model under the name that the command sees, with the files of its external data.
const given = (model, data) => ({ ...data, "model.onnx": model });

export async function optimize(model, { data = {}, args = [], ...options } = {}) {
  const flags = [];
  if (options.preset) flags.push("--passes", options.preset);
  if (options.opset) flags.push("--opset", String(options.opset));
  for (const [name, shape] of Object.entries(options.inputShapes ?? {})) flags.push("--input-shape", `${name}:${shape.join(",")}`);
  const result = await command(["optimize", "model.onnx", "-o", "optimized.onnx", "--json", ...flags, ...args], given(model, data));
  const report = reported(result);
  const { "optimized.onnx": optimized, ...others } = result.files;
  return { model: optimized, data: others, report };
}

export async function info(model, { data = {} } = {}) {
  return reported(await command(["info", "--json", "model.onnx"], given(model, data)));
}

export async function check(model, { data = {} } = {}) {
  return reported(await command(["check", "--json", "model.onnx"], given(model, data)));
}

export async function view(model, { data = {} } = {}) {
  const result = await command(["view", "model.onnx", "-o", "view.html"], given(model, data));
  if (result.code !== 0) throw new SardonyxError(result.stderr.trim(), "invalid_model");
  return result.files["view.html"].text();
}
