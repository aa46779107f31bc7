// The npm package in Node: SARDONYX_PACKAGE names its folder (scripts/packages/wasm.py test).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { check, command, info, optimize, view, SardonyxError } = await import(pathToFileURL(process.env.SARDONYX_PACKAGE + "/index.js"));

// z = x · y + (-(-w)) for constant w; the command makes a model of the text.
const text = `graph(x: f32[3,5], y: f32[3,5]) {
  w = f32[5]{2, 3, 5, 7, 11}
  a = Mul(x, y)
  b = Neg(w)
  c = Neg(b)
  z = Add(a, c)
  return z
}
`;

async function model() {
  const made = await command(["optimize", "in.sx", "-o", "out.onnx", "--passes", "remove_dead_nodes", "--json"], { "in.sx": new TextEncoder().encode(text) });
  assert.equal(made.code, 0, made.stderr);
  return made.files["out.onnx"];
}

test("a model is made smaller", async () => {
  const { model: after, report } = await optimize(await model());
  assert.deepEqual([report.before.nodes, report.after.nodes], [4, 2]);
  assert.deepEqual((await info(after)).ops, { Add: 1, Mul: 1 });
});

test("bytes, buffers and blobs are the same model", async () => {
  const blob = await model();
  const buffer = await blob.arrayBuffer();
  const results = [];
  for (const form of [blob, buffer, new Uint8Array(buffer)]) results.push(Buffer.from(await (await optimize(form)).model.arrayBuffer()).toString("hex"));
  assert.equal(new Set(results).size, 1);
});

test("a model is checked and shown", async () => {
  await check(await model());
  assert.match(await view(await model()), /<html/);
});

test("what is no model is refused with the command's message", async () => {
  for (const call of [optimize, info, check, view]) {
    await assert.rejects(call(new TextEncoder().encode("# a README, not a model\n".repeat(9))), (e) => e instanceof SardonyxError && /this is text/.test(e.message));
  }
});

test("an option is refused with the command's message", async () => {
  await assert.rejects(optimize(await model(), { args: ["--skip", "fuse_everything"] }), /fuse_everything/);
});

test("nothing is left over, and no input is changed", async () => {
  const bytes = new Uint8Array(await (await model()).arrayBuffer());
  const before = bytes.slice();
  const result = await command(["optimize", "m.onnx", "-o", "folder/out.onnx"], { "m.onnx": bytes });
  assert.deepEqual(Object.keys(result.files), ["folder/out.onnx"]);
  assert.deepEqual(bytes, before);
});

test("external data is written to a file and read from it", async () => {
  const apart = await command(["optimize", "m.onnx", "-o", "out.onnx", "--external-data", "--data-threshold", "1"], { "m.onnx": await model() });
  assert.deepEqual(Object.keys(apart.files).sort(), ["out.onnx", "out.onnx.data"]);
  const data = { "out.onnx.data": apart.files["out.onnx.data"] };
  assert.equal((await info(apart.files["out.onnx"], { data })).tensor_bytes, 20);
  await assert.rejects(info(apart.files["out.onnx"]), /out\.onnx\.data/);
});

test("the types name what is exported", () => {
  const types = readFileSync(process.env.SARDONYX_PACKAGE + "/index.d.ts", "utf8");
  for (const name of ["optimize", "info", "check", "view", "command"]) assert.match(types, new RegExp(`export function ${name}\\(`));
  assert.match(types, /export class SardonyxError/);
});
