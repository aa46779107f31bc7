/** Sardonyx in a browser or in Node. Models stay on this machine; weights that do not change are not copied. */

/** A model, or a file of its external data. In a browser, give the File itself: it is read where it lies. */
export type Bytes = Blob | Uint8Array | ArrayBuffer;

export interface Files {
  /** Files of external data, by the names that the model uses. */
  data?: Record<string, Bytes>;
}

export interface OptimizeOptions extends Files {
  /** Preset or comma-separated passes; `sardonyx passes` lists them. Default: `onnx`. */
  preset?: string;
  /** Convert the model to this opset. */
  opset?: number;
  /** Sizes of inputs, by name. */
  inputShapes?: Record<string, number[]>;
  /** More options of `sardonyx optimize`. */
  args?: string[];
}

export interface Counts {
  nodes: number;
  parameters: number;
  tensor_bytes: number;
  file_bytes: number;
  ops: Record<string, number>;
}

export interface OptimizeReport {
  before: Counts;
  after: Counts;
  seconds: { read: number; optimize: number; write: number };
  passes: { name: string; changed: boolean; seconds: number; counts: Record<string, number> }[];
  [more: string]: unknown;
}

export interface InfoReport {
  file_bytes: number;
  opsets: Record<string, number>;
  inputs: { name: string; type: string }[];
  outputs: { name: string; type: string }[];
  nodes: number;
  nested_nodes: number;
  functions: number;
  tensors: number;
  tensor_bytes: number;
  ops: Record<string, number>;
  [more: string]: unknown;
}

export interface CheckReport {
  [key: string]: unknown;
}

export interface CommandResult {
  code: number;
  stdout: string;
  stderr: string;
  /** Files that the command wrote, by name. */
  files: Record<string, Blob>;
  /** Bytes of memory that the program used. */
  memory: number;
}

/** Makes a model smaller and faster. Its results stay the same. */
export function optimize(model: Bytes, options?: OptimizeOptions): Promise<{ model: Blob; data: Record<string, Blob>; report: OptimizeReport }>;

/** Summarizes a model. */
export function info(model: Bytes, options?: Files): Promise<InfoReport>;

/** Checks a model. Throws what is wrong with it. */
export function check(model: Bytes, options?: Files): Promise<CheckReport>;

/** Returns the model as an HTML page. */
export function view(model: Bytes, options?: Files): Promise<string>;

/** Runs any command of `sardonyx` on these files, which lie in its folder. */
export function command(args: string[], files?: Record<string, Bytes>): Promise<CommandResult>;

/** What was wrong with a model or an option. `code` is as in Python's `sardonyx.Error`. */
export class SardonyxError extends Error {
  readonly code: string;
}
