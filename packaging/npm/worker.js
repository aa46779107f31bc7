// Runs the command in a worker of the browser, where Blobs can be read piece by piece.
import { run } from "./host.js";

self.onmessage = ({ data: { id, module, args, files } }) => {
  try {
    const result = run(module, args, files);
    const outputs = {};
    for (const [name, file] of result.files) if (!(name in files)) outputs[name] = new Blob(file.blobParts());
    self.postMessage({ id, code: result.code, stdout: result.stdout, stderr: result.stderr, memory: result.memory, outputs });
  } catch (error) {
    self.postMessage({ id, failed: String(error?.message ?? error) });
  }
};
