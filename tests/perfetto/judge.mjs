// SPDX-License-Identifier: Apache-2.0
//
// judge.mjs PACKAGE [--allow STAT]... [--reader PROGRAM] TRACE [--expect FILE.json] TRACE...
//
// Loads each trace into Perfetto's own parser and complains when that complains: any statistic of severity error, data_loss or notice,
// and the info rows that stand for dropped events. What Perfetto found is then held against
//   --expect FILE   what the maker of the trace before it says it recorded (see expectations below), and
//   --reader PROG   what our own reader finds: PROG TRACE prints the same summary as JSON (tests/tools/tracesum.c).
// --allow lets a statistic pass, for traces that lose events on purpose.
//
// Exit 0 = all is well, 1 = a complaint, 2 = wrong usage, 99 = the judge itself could not work.
//
// Expectations, all optional:
//   slices     {name: {count, dur, open, depth}}   dur and depth are sums; dur of the closed ones; open = without end; instants count
//   flows      number of arrows                    arrows  [[name of source, name of target], ...] in order of time
//   counters   {track name: {count, sum}}          attributes  {key: value}
//   list       [[ts, dur, name, depth, name of parent or null, name of track], ...]  every slice, in order of ts, depth
//   samples    {counter name: [[ts, value], ...]}
//   threads    [[pid, tid, name], ...]             processes [[pid, name], ...]
//   stats      {name: value}                       exactly these values (implies --allow for them)
import fs from 'node:fs';
import {execFileSync} from 'node:child_process';
import {isDeepStrictEqual} from 'node:util';
import {Perfetto} from './engine.mjs';

const INFO_THAT_MATTERS = [
  'track_event_parser_errors', 'track_event_tokenizer_errors', 'interned_data_tokenizer_errors', 'track_hierarchy_missing_uuid',
  'flow_step_without_start', 'flow_end_without_start', 'flow_without_direction', 'flow_no_enclosing_slice', 'flow_invalid_id',
  'misplaced_end_event', 'slice_max_depth_exceeded',
];
const SHOWN = 12;  // differences of one kind that are printed

function usage(text) {
  process.stderr.write(`${text}\nusage: judge.mjs PACKAGE [--allow STAT]... [--reader PROGRAM] TRACE [--expect FILE] ...\n`);
  process.exit(2);
}

function parseArguments(argv) {
  const [packageDir, ...rest] = argv;
  const options = {packageDir, allow: new Set(), reader: null, traces: []};
  while (rest.length) {
    const word = rest.shift();
    if (!word.startsWith('--')) {
      options.traces.push({path: word, expect: []});
      continue;
    }
    const value = rest.shift();
    if (value === undefined) usage(`${word} needs a value`);
    if (word === '--allow') options.allow.add(value);
    else if (word === '--reader') options.reader = value;
    else if (word === '--expect' && options.traces.length) options.traces.at(-1).expect.push(value);
    else usage(`unknown or misplaced option ${word}`);
  }
  if (!options.traces.length) usage('no trace given');
  return options;
}

// JSON that C programs print holds whole numbers beyond 2^53 (flow ids do not appear; sums of ns may).
const near = (a, b) => a === b || (typeof a === 'number' && typeof b === 'number' &&
  Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b)));

function differences(what, expected, found, complaints) {
  const before = complaints.length;
  const compare = (where, e, f) => {
    if (near(e, f)) return;
    if (e !== null && f !== null && typeof e === 'object' && typeof f === 'object' && Array.isArray(e) === Array.isArray(f)) {
      for (const key of new Set([...Object.keys(e), ...Object.keys(f)])) compare(`${where}[${key}]`, e[key], f[key]);
      return;
    }
    if (!isDeepStrictEqual(e, f)) complaints.push(`${where}: expected ${JSON.stringify(e)}, Perfetto has ${JSON.stringify(f)}`);
  };
  compare(what, expected, found);
  if (complaints.length > before + SHOWN) {
    const more = complaints.length - before - SHOWN;
    complaints.splice(before + SHOWN, more, `${what}: ${more} further differences`);
  }
}

const TRACK_NAME = `coalesce(thread.name, process.name, track.name)`;
const TRACK_JOINS = `join track on track.id = X.track_id
  left join thread_track on thread_track.id = track.id left join thread on thread.utid = thread_track.utid
  left join process_track on process_track.id = track.id and process_track.name is null
  left join process on process.upid = process_track.upid`;

// One function per kind of expectation: what Perfetto has, in the expectation's form.
const FINDERS = {
  async slices(perfetto) {
    const {rows} = await perfetto.query(`select coalesce(name, '') as name, count(*) as count, sum(max(dur, 0)) as dur,
      sum(dur = -1) as open, sum(depth) as depth from slice group by 1`);
    return Object.fromEntries(rows.map(({name, ...sums}) => [name, sums]));
  },
  async flows(perfetto) {
    return (await perfetto.query('select count(*) as n from flow')).rows[0].n;
  },
  async arrows(perfetto) {
    const {rows} = await perfetto.query(`select a.name as source, b.name as target from flow
      join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in order by a.ts, b.ts`);
    return rows.map(({source, target}) => [source, target]);
  },
  async counters(perfetto) {
    const {rows} = await perfetto.query(`select track.name as name, count(*) as count, sum(value) as sum
      from counter join track on track.id = counter.track_id group by 1`);
    return Object.fromEntries(rows.map(({name, ...sums}) => [name, sums]));
  },
  async attributes(perfetto) {
    const {rows} = await perfetto.query(`select substr(name, 17) as key, coalesce(int_value, str_value) as value
      from metadata where name glob 'trace_attribute.*'`);
    return Object.fromEntries(rows.map(({key, value}) => [key, value]));
  },
  async list(perfetto) {
    const {rows} = await perfetto.query(`select X.ts, X.dur, X.name, X.depth, parent.name as parent, ${TRACK_NAME} as track
      from slice X ${TRACK_JOINS} left join slice parent on parent.id = X.parent_id order by X.ts, X.depth, X.id`);
    return rows.map((row) => [row.ts, row.dur, row.name, row.depth, row.parent, row.track]);
  },
  async samples(perfetto) {
    const {rows} = await perfetto.query(`select track.name as name, ts, value from counter
      join track on track.id = counter.track_id order by ts, counter.id`);
    const samples = {};
    for (const {name, ts, value} of rows) (samples[name] ??= []).push([ts, value]);
    return samples;
  },
  async threads(perfetto) {
    const {rows} = await perfetto.query(`select pid, tid, thread.name as name from thread left join process using (upid)
      where tid != 0 order by pid, tid`);
    return rows.map(({pid, tid, name}) => [pid, tid, name]);
  },
  async processes(perfetto) {
    const {rows} = await perfetto.query('select pid, name from process where pid != 0 order by pid');
    return rows.map(({pid, name}) => [pid, name]);
  },
};

async function checkExpectation(perfetto, expectation, source, complaints) {
  for (const [kind, expected] of Object.entries(expectation)) {
    if (kind === 'stats') continue;
    if (!FINDERS[kind]) throw new Error(`${source}: no expectation is called "${kind}"`);
    differences(`${kind} (${source})`, expected, await FINDERS[kind](perfetto), complaints);
  }
}

async function checkStatistics(perfetto, allow, exactly, complaints) {
  const info = INFO_THAT_MATTERS.map((name) => `'${name}'`).join(', ');
  const {rows} = await perfetto.query(`select name, idx, severity, value from stats where value > 0 and
    (severity in ('error', 'data_loss', 'notice') or name in (${info}))`);
  for (const {name, idx, severity, value} of rows) {
    if (allow.has(name) || name in exactly) continue;
    complaints.push(`statistic ${name}${idx === null ? '' : `[${idx}]`} = ${value} (${severity})`);
  }
  for (const [name, expected] of Object.entries(exactly)) {
    const {rows: [{value}]} = await perfetto.query(`select coalesce(sum(value), 0) as value from stats where name = '${name}'`);
    if (value !== expected) complaints.push(`statistic ${name}: expected ${expected}, Perfetto has ${value}`);
  }
}

async function judge(perfetto, options, trace) {
  const complaints = [];
  try {
    await perfetto.load(trace.path);
  } catch (error) {
    return [`does not load: ${error?.message ?? error}`];
  }
  const expectations = trace.expect.map((file) => [file, JSON.parse(fs.readFileSync(file, 'utf8'))]);
  if (options.reader) {
    try {
      expectations.push(['our reader', JSON.parse(execFileSync(options.reader, [trace.path], {maxBuffer: 1 << 28}))]);
    } catch (error) {
      complaints.push(`our reader: ${error.message}`);
    }
  }
  const exactly = Object.assign({}, ...expectations.map(([, {stats}]) => stats ?? {}));
  await checkStatistics(perfetto, options.allow, exactly, complaints);
  for (const [source, expectation] of expectations) await checkExpectation(perfetto, expectation, source, complaints);
  return complaints;
}

const options = parseArguments(process.argv.slice(2));
let failed = 0;
try {
  const perfetto = await Perfetto.start(options.packageDir);
  for (const trace of options.traces) {
    const complaints = await judge(perfetto, options, trace);
    failed += complaints.length > 0;
    for (const complaint of complaints) process.stdout.write(`${trace.path}: ${complaint}\n`);
    if (!complaints.length) {
      const {rows: [{slices}]} = await perfetto.query('select count(*) as slices from slice');
      process.stdout.write(`${trace.path}: well, ${slices} slices\n`);
    }
  }
} catch (error) {
  process.stderr.write(`judge: ${error?.stack ?? error}\n`);
  process.exit(99);
}
process.exit(failed ? 1 : 0);
