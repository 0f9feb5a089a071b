// SPDX-License-Identifier: Apache-2.0
//
// query.mjs PACKAGE TRACE SQL...: loads a trace into Perfetto's trace_processor and prints the rows of each query, separated by tabs,
// under a line of column names. Exit 0, 1 = the trace does not load or a query is wrong, 2 = wrong usage.
import {Perfetto} from './engine.mjs';

const [packageDir, trace, ...queries] = process.argv.slice(2);
if (!trace) {
  process.stderr.write('usage: query.mjs PACKAGE TRACE SQL...\n');
  process.exit(2);
}
try {
  const perfetto = await Perfetto.start(packageDir);
  await perfetto.load(trace);
  for (const sql of queries) {
    const {columns, rows} = await perfetto.query(sql);
    process.stdout.write(`${columns.join('\t')}\n`);
    for (const row of rows) process.stdout.write(`${columns.map((column) => String(row[column])).join('\t')}\n`);
  }
} catch (error) {
  process.stderr.write(`${trace}: ${error?.message ?? error}\n`);
  process.exit(1);
}
process.exit(0);
