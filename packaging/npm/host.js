// What sardonyx.wasm needs of the outside: WASI preview 1 over files that lie in memory or in the browser's File objects.
//
// A file is a list of parts: bytes that the program wrote, and ranges of sources (Uint8Array, Blob) that it copied. A
// source is read only when the program reads; its ranges that end up in an output are passed on without being read.

const ERRNO = { SUCCESS: 0, BADF: 8, EXIST: 20, INVAL: 28, IO: 29, ISDIR: 31, NOENT: 44, NOSYS: 52, NOTDIR: 54, NOTEMPTY: 55 };
const PIECE = 1 << 23; // bytes that a Blob is read by

class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`);
    this.code = code;
  }
}

// A source of bytes with size and read(begin, end).
class MemorySource {
  constructor(bytes) {
    this.bytes = bytes;
    this.size = bytes.length;
  }
  read(begin, end) {
    return this.bytes.subarray(begin, end);
  }
  part(begin, end) {
    return this.bytes.subarray(begin, end);
  }
}

// A Blob, which only a worker can read without waiting.
class BlobSource {
  constructor(blob) {
    this.blob = blob;
    this.size = blob.size;
    this.reader = new FileReaderSync();
  }
  read(begin, end) {
    return new Uint8Array(this.reader.readAsArrayBuffer(this.blob.slice(begin, Math.min(end, begin + PIECE))));
  }
  part(begin, end) {
    return this.blob.slice(begin, end);
  }
}

function sourceOf(data) {
  if (data instanceof Uint8Array) return new MemorySource(data);
  if (data instanceof ArrayBuffer) return new MemorySource(new Uint8Array(data));
  return new BlobSource(data);
}

let inodes = 0;

class MemoryFile {
  constructor() {
    this.inode = ++inodes;
    this.parts = []; // {at, source, begin, end}: bytes begin..end of the source, at this offset of the file
    this.size = 0;
  }

  static of(data) {
    const file = new MemoryFile();
    const source = sourceOf(data);
    if (source.size > 0) file.parts.push({ at: 0, source, begin: 0, end: source.size });
    file.size = source.size;
    return file;
  }

  // The index of the part that holds `offset`; the number of parts if none does.
  find(offset) {
    let low = 0, high = this.parts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const p = this.parts[middle];
      if (p.at + p.end - p.begin <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The bytes at `offset`: at least one unless the file ends there, at most `length`.
  read(offset, length) {
    const p = this.parts[this.find(offset)];
    if (p === undefined || length === 0) return new Uint8Array(0);
    const begin = p.begin + (offset - p.at);
    return p.source.read(begin, Math.min(begin + length, p.end));
  }

  // Ranges of sources that make up offset..offset + length.
  ranges(offset, length) {
    const found = [];
    for (let i = this.find(offset), at = offset; i < this.parts.length && at < offset + length; i++) {
      const p = this.parts[i];
      const begin = p.begin + (at - p.at);
      const end = Math.min(p.end, begin + (offset + length - at));
      found.push({ source: p.source, begin, end });
      at += end - begin;
    }
    return found;
  }

  put(offset, source, begin, end) {
    if (begin === end) return;
    if (offset > this.size) {
      const zeros = new MemorySource(new Uint8Array(offset - this.size));
      this.parts.push({ at: this.size, source: zeros, begin: 0, end: zeros.size });
      this.size = offset;
    }
    const last = offset + (end - begin);
    const part = { at: offset, source, begin, end };
    if (offset === this.size) {
      this.parts.push(part);
    } else {
      // What is overwritten is cut out of the parts that it lies in.
      const first = this.find(offset);
      const before = [], behind = [];
      let i = first;
      for (; i < this.parts.length && this.parts[i].at < last; i++) {
        const p = this.parts[i];
        if (p.at < offset) before.push({ ...p, end: p.begin + (offset - p.at) });
        if (p.at + p.end - p.begin > last) behind.push({ ...p, at: last, begin: p.begin + (last - p.at) });
      }
      this.parts.splice(first, i - first, ...before, part, ...behind);
    }
    this.size = Math.max(this.size, last);
  }

  resize(size) {
    if (size > this.size) {
      const zeros = new MemorySource(new Uint8Array(size - this.size));
      this.put(this.size, zeros, 0, zeros.size);
      return;
    }
    this.parts = this.ranges(0, size).map(((at) => (r) => {
      const part = { at, ...r };
      at += r.end - r.begin;
      return part;
    })(0));
    this.size = size;
  }

  // Uint8Arrays and Blobs, in order: a Blob of them has this file's bytes.
  blobParts() {
    return this.parts.map((p) => p.source.part(p.begin, p.end));
  }
}

const FILETYPE = { DEVICE: 2, FOLDER: 3, REGULAR: 4 };
const ALL_RIGHTS = (1n << 30n) - 1n;

class Host {
  constructor(files, args) {
    this.files = new Map(Object.entries(files).map(([name, data]) => [name, MemoryFile.of(data)]));
    this.folders = new Set([""]);
    for (const name of this.files.keys()) this.addFoldersOf(name);
    this.args = args.map((a) => new TextEncoder().encode(a + "\0"));
    this.text = ["", "", ""];
    this.decoders = [null, new TextDecoder(), new TextDecoder()];
    this.open = [{ stream: 0 }, { stream: 1 }, { stream: 2 }, { folder: "" }];
  }

  addFoldersOf(name) {
    for (let cut = name.indexOf("/"); cut >= 0; cut = name.indexOf("/", cut + 1)) this.folders.add(name.slice(0, cut));
  }

  get view() {
    return new DataView(this.memory.buffer);
  }
  bytes(at, length) {
    return new Uint8Array(this.memory.buffer, at >>> 0, length >>> 0);
  }
  path(folder, at, length) {
    const from = this.open[folder]?.folder ?? "";
    const parts = [];
    for (const part of `${from}/${new TextDecoder().decode(this.bytes(at, length).slice())}`.split("/")) {
      if (part === "..") parts.pop();
      else if (part !== "" && part !== ".") parts.push(part);
    }
    return parts.join("/");
  }

  // Calls visit(view of memory) for each buffer of a list, until one returns less than the buffer holds.
  eachBuffer(list, count, visit) {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = this.view.getUint32(list + 8 * i, true), length = this.view.getUint32(list + 8 * i + 4, true);
      let done = 0;
      while (done < length) {
        const now = visit(this.bytes(at + done, length - done));
        done += now;
        if (now === 0) return total + done;
      }
      total += done;
    }
    return total;
  }

  readAt(fd, list, count, offset, result) {
    const file = this.open[fd]?.file;
    if (file === undefined) return ERRNO.BADF;
    const total = this.eachBuffer(list, count, (to) => {
      const got = file.read(offset, to.length);
      to.set(got);
      offset += got.length;
      return got.length;
    });
    this.view.setUint32(result, total, true);
    return total;
  }

  writeAt(fd, list, count, offset, result) {
    const file = this.open[fd].file;
    const total = this.eachBuffer(list, count, (from) => {
      const bytes = from.slice();
      file.put(offset, new MemorySource(bytes), 0, bytes.length);
      offset += bytes.length;
      return bytes.length;
    });
    this.view.setUint32(result, total, true);
    return total;
  }

  stat(at, entry) {
    const v = this.view;
    for (let i = 0; i < 64; i += 8) v.setBigUint64(at + i, 0n, true);
    const { file, folder, stream } = entry;
    v.setBigUint64(at + 8, BigInt(file?.inode ?? 0), true);
    v.setUint8(at + 16, stream !== undefined ? FILETYPE.DEVICE : folder !== undefined ? FILETYPE.FOLDER : FILETYPE.REGULAR);
    v.setBigUint64(at + 24, 1n, true);
    v.setBigUint64(at + 32, BigInt(file?.size ?? 0), true);
    return ERRNO.SUCCESS;
  }

  at(path) {
    if (this.files.has(path)) return { file: this.files.get(path), path };
    return this.folders.has(path) ? { folder: path } : null;
  }

  // The functions that the program imports.
  imports() {
    const wasi = {
      args_sizes_get: (count, size) => {
        this.view.setUint32(count, this.args.length, true);
        this.view.setUint32(size, this.args.reduce((sum, a) => sum + a.length, 0), true);
        return ERRNO.SUCCESS;
      },
      args_get: (pointers, at) => {
        for (const a of this.args) {
          this.view.setUint32(pointers, at, true);
          this.bytes(at, a.length).set(a);
          pointers += 4;
          at += a.length;
        }
        return ERRNO.SUCCESS;
      },
      environ_sizes_get: (count, size) => {
        this.view.setUint32(count, 0, true);
        this.view.setUint32(size, 0, true);
        return ERRNO.SUCCESS;
      },
      environ_get: () => ERRNO.SUCCESS,
      clock_res_get: (_, at) => {
        this.view.setBigUint64(at, 1000n, true);
        return ERRNO.SUCCESS;
      },
      clock_time_get: (id, _, at) => {
        const ms = id === 0 ? Date.now() : performance.now();
        this.view.setBigUint64(at, BigInt(Math.round(ms * 1e6)), true);
        return ERRNO.SUCCESS;
      },
      random_get: (at, length) => {
        for (let i = 0; i < length; i += 65536) crypto.getRandomValues(this.bytes(at + i, Math.min(65536, length - i)));
        return ERRNO.SUCCESS;
      },
      proc_exit: (code) => {
        throw new Exit(code);
      },
      sched_yield: () => ERRNO.SUCCESS,
      poll_oneoff: () => ERRNO.NOSYS,

      fd_prestat_get: (fd, at) => {
        if (fd !== 3) return ERRNO.BADF;
        this.view.setUint32(at, 0, true);
        this.view.setUint32(at + 4, 1, true);
        return ERRNO.SUCCESS;
      },
      fd_prestat_dir_name: (fd, at) => {
        if (fd !== 3) return ERRNO.BADF;
        this.view.setUint8(at, "/".charCodeAt(0));
        return ERRNO.SUCCESS;
      },
      fd_fdstat_get: (fd, at) => {
        const entry = this.open[fd];
        if (!entry) return ERRNO.BADF;
        for (let i = 0; i < 24; i += 8) this.view.setBigUint64(at + i, 0n, true);
        const type = entry.stream !== undefined ? FILETYPE.DEVICE : entry.folder !== undefined ? FILETYPE.FOLDER : FILETYPE.REGULAR;
        this.view.setUint8(at, type);
        // Streams cannot be moved: C's library then sees a terminal and writes line by line.
        this.view.setBigUint64(at + 8, entry.stream !== undefined ? ALL_RIGHTS & ~0x24n : ALL_RIGHTS, true);
        this.view.setBigUint64(at + 16, ALL_RIGHTS, true);
        return ERRNO.SUCCESS;
      },
      fd_fdstat_set_flags: () => ERRNO.SUCCESS,
      fd_filestat_get: (fd, at) => (this.open[fd] ? this.stat(at, this.open[fd]) : ERRNO.BADF),
      fd_filestat_set_size: (fd, size) => {
        const file = this.open[fd]?.file;
        if (!file) return ERRNO.BADF;
        file.resize(Number(size));
        return ERRNO.SUCCESS;
      },
      fd_filestat_set_times: () => ERRNO.SUCCESS,
      fd_sync: () => ERRNO.SUCCESS,
      fd_datasync: () => ERRNO.SUCCESS,
      fd_advise: () => ERRNO.SUCCESS,
      fd_close: (fd) => {
        if (!this.open[fd]) return ERRNO.BADF;
        this.open[fd] = null;
        return ERRNO.SUCCESS;
      },
      fd_seek: (fd, offset, whence, result) => {
        const entry = this.open[fd];
        if (!entry?.file) return ERRNO.BADF;
        const base = whence === 0 ? 0 : whence === 1 ? entry.offset : entry.file.size;
        entry.offset = base + Number(offset);
        this.view.setBigUint64(result, BigInt(entry.offset), true);
        return ERRNO.SUCCESS;
      },
      fd_tell: (fd, result) => {
        this.view.setBigUint64(result, BigInt(this.open[fd].offset), true);
        return ERRNO.SUCCESS;
      },
      fd_read: (fd, list, count, result) => {
        const entry = this.open[fd];
        if (entry?.stream === 0) {
          this.view.setUint32(result, 0, true);
          return ERRNO.SUCCESS;
        }
        if (!entry?.file) return entry?.folder !== undefined ? ERRNO.ISDIR : ERRNO.BADF;
        entry.offset += this.readAt(fd, list, count, entry.offset, result);
        return ERRNO.SUCCESS;
      },
      fd_pread: (fd, list, count, offset, result) => {
        if (!this.open[fd]?.file) return ERRNO.BADF;
        this.readAt(fd, list, count, Number(offset), result);
        return ERRNO.SUCCESS;
      },
      fd_write: (fd, list, count, result) => {
        const entry = this.open[fd];
        if (entry?.stream > 0) {
          const total = this.eachBuffer(list, count, (from) => {
            this.text[entry.stream] += this.decoders[entry.stream].decode(from.slice(), { stream: true });
            return from.length;
          });
          this.view.setUint32(result, total, true);
          return ERRNO.SUCCESS;
        }
        if (!entry?.file) return ERRNO.BADF;
        if (entry.append) entry.offset = entry.file.size;
        entry.offset += this.writeAt(fd, list, count, entry.offset, result);
        return ERRNO.SUCCESS;
      },
      fd_pwrite: (fd, list, count, offset, result) => {
        if (!this.open[fd]?.file) return ERRNO.BADF;
        this.writeAt(fd, list, count, Number(offset), result);
        return ERRNO.SUCCESS;
      },
      fd_readdir: (fd, at, length, cookie, result) => {
        const folder = this.open[fd]?.folder;
        if (folder === undefined) return ERRNO.NOTDIR;
        const prefix = folder === "" ? "" : folder + "/";
        const inside = (p) => p !== "" && p.startsWith(prefix) && p !== folder && !p.slice(prefix.length).includes("/");
        const names = [...this.folders].filter(inside).map((p) => [p.slice(prefix.length), FILETYPE.FOLDER, 0]);
        for (const [p, file] of this.files) if (inside(p)) names.push([p.slice(prefix.length), FILETYPE.REGULAR, file.inode]);
        let used = 0;
        for (let i = Number(cookie); i < names.length && used < length; i++) {
          const [name, type, inode] = names[i], text = new TextEncoder().encode(name);
          const entry = new Uint8Array(24 + text.length), v = new DataView(entry.buffer);
          v.setBigUint64(0, BigInt(i + 1), true);
          v.setBigUint64(8, BigInt(inode), true);
          v.setUint32(16, text.length, true);
          v.setUint8(20, type);
          entry.set(text, 24);
          const fits = entry.subarray(0, length - used);
          this.bytes(at + used, fits.length).set(fits);
          used += fits.length;
        }
        this.view.setUint32(result, used, true);
        return ERRNO.SUCCESS;
      },

      path_open: (folder, _, at, length, flags, rights, __, fdflags, result) => {
        const path = this.path(folder, at, length);
        let entry = this.at(path);
        const create = flags & 1, onlyFolder = flags & 2, exclusive = flags & 4, truncate = flags & 8;
        if (entry && create && exclusive) return ERRNO.EXIST;
        if (entry && onlyFolder && entry.folder === undefined) return ERRNO.NOTDIR;
        if (!entry) {
          if (!create) return ERRNO.NOENT;
          if (!this.folders.has(path.slice(0, Math.max(0, path.lastIndexOf("/"))))) return ERRNO.NOENT;
          this.files.set(path, new MemoryFile());
          entry = this.at(path);
        }
        if (truncate && entry.file) entry.file.resize(0);
        let fd = this.open.indexOf(null);
        if (fd < 0) fd = this.open.length;
        this.open[fd] = { ...entry, offset: 0, append: (fdflags & 1) !== 0 };
        this.view.setUint32(result, fd, true);
        return ERRNO.SUCCESS;
      },
      path_filestat_get: (folder, _, at, length, result) => {
        const entry = this.at(this.path(folder, at, length));
        return entry ? this.stat(result, entry) : ERRNO.NOENT;
      },
      path_filestat_set_times: () => ERRNO.SUCCESS,
      path_create_directory: (folder, at, length) => {
        const path = this.path(folder, at, length);
        if (this.at(path)) return ERRNO.EXIST;
        this.folders.add(path);
        return ERRNO.SUCCESS;
      },
      path_remove_directory: (folder, at, length) => {
        const path = this.path(folder, at, length);
        if (!this.folders.has(path)) return ERRNO.NOENT;
        for (const p of [...this.files.keys(), ...this.folders]) if (p.startsWith(path + "/")) return ERRNO.NOTEMPTY;
        this.folders.delete(path);
        return ERRNO.SUCCESS;
      },
      path_unlink_file: (folder, at, length) => (this.files.delete(this.path(folder, at, length)) ? ERRNO.SUCCESS : ERRNO.NOENT),
      path_rename: (folder, at, length, toFolder, toAt, toLength) => {
        const from = this.path(folder, at, length), to = this.path(toFolder, toAt, toLength);
        if (from === to) return ERRNO.SUCCESS;
        if (this.files.has(from)) {
          this.files.set(to, this.files.get(from));
          this.files.delete(from);
          return ERRNO.SUCCESS;
        }
        if (!this.folders.has(from)) return ERRNO.NOENT;
        const moved = (p) => (p === from || p.startsWith(from + "/") ? to + p.slice(from.length) : p);
        this.folders = new Set([...this.folders].map(moved));
        this.files = new Map([...this.files].map(([p, file]) => [moved(p), file]));
        return ERRNO.SUCCESS;
      },
      path_link: () => ERRNO.NOSYS,
      path_symlink: () => ERRNO.NOSYS,
      path_readlink: () => ERRNO.INVAL,
    };
    const sardonyx = {
      // See src/support/system/system_wasi.cc.
      copy: (from, fromOffset, to, toOffset, size) => {
        const source = this.open[from]?.file, target = this.open[to]?.file;
        if (!source || !target || source === target) return -1n;
        let at = Number(toOffset);
        for (const r of source.ranges(Number(fromOffset), Number(size))) {
          target.put(at, r.source, r.begin, r.end);
          at += r.end - r.begin;
        }
        return BigInt(at) - toOffset;
      },
    };
    return { wasi_snapshot_preview1: wasi, sardonyx };
  }
}

/**
 * Runs the command with these files in its folder.
 * @param {WebAssembly.Module} module sardonyx.wasm
 * @param {string[]} args arguments of the command, without its name
 * @param {Record<string, Uint8Array | ArrayBuffer | Blob>} files by name; Blobs in a worker only
 * @returns {{code: number, stdout: string, stderr: string, files: Map<string, MemoryFile>, memory: number}}
 */
export function run(module, args, files) {
  const host = new Host(files, ["sardonyx", ...args]);
  const instance = new WebAssembly.Instance(module, host.imports());
  host.memory = instance.exports.memory;
  let code = 0;
  try {
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    code = error.code;
  }
  return { code, stdout: host.text[1], stderr: host.text[2], files: host.files, memory: host.memory.buffer.byteLength };
}
