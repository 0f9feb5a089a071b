# SPDX-License-Identifier: Apache-2.0
"""Holds a trace (as printed by tracecat, on stdin) against what the program said it must hold.

usage: tracecat FILE | check.py EXPECTED MODE     MODE: cupti, or wrappers (no GPU records), child (no GPU at all),
or injected (CUPTI's records only)
"""
import collections
import re
import sys

LINE = re.compile(r'(\d+) seq=(\d+) (begin|end|instant|counter|track|attribute|clocks|loss)(?: "((?:[^"\\]|\\.)*)")?(.*)')


def fields(text):
    return {k: v.strip('"') for k, v in re.findall(r' ([\w.]+)=("(?:[^"\\]|\\.)*"|\S+)', text)}


class Trace:
    def __init__(self, lines):
        self.tracks, self.attrs, self.slices, self.losses = {}, {}, [], 0
        self.watermark, self.late = 0, 0  # what ended 2 s before a clock snapshot has been written before it
        events = collections.defaultdict(list)
        for line in lines:
            m = LINE.match(line)
            if not m:
                continue
            ts, _, kind, name, rest = m.groups()
            f = fields(rest)
            if kind == 'track':
                self.tracks[f['uuid']] = dict(f, name=name)
            elif kind == 'attribute':
                self.attrs.update(f)
            elif kind == 'loss':
                self.losses += 1
            elif kind in ('begin', 'end'):
                events[f['track']].append((int(ts), kind, name, f))
                if kind == 'end' and int(ts) + 2 * 10**9 < self.watermark:
                    self.late = max(self.late, self.watermark - int(ts))
            elif kind == 'clocks':
                self.watermark = max(self.watermark, int(f['monotonic']))
        for track, list_ in events.items():
            self.nest(track, list_)

    def nest(self, track, list_):
        list_.sort(key=lambda e: e[0])  # stable: file order at equal times, as Perfetto has it
        stack = []
        for ts, kind, name, f in list_:
            if kind == 'begin':
                stack.append(dict(f, name=name, start=ts, track=track, end=None, depth=len(stack)))
                self.slices.append(stack[-1])
            elif stack:
                stack.pop()['end'] = ts


def fail(text):
    print('FAIL:', text)
    fail.failed = True


fail.failed = False


def expected(path):
    ops, calls, unfinished = collections.Counter(), collections.Counter(), 0
    for line in open(path):
        what, *rest = line.rstrip('\n').split('|')
        if what == 'op':
            name, stream, size, count = rest
            ops[name, 'stream ' + stream, size] += int(count)
        elif what == 'call':
            *names, tid, count = rest
            calls[tuple(names), tid] += int(count)
        elif what == 'unfinished':
            unfinished = int(rest[0])
    return ops, calls, unfinished


def check_ops(t, gpu, want, unfinished):
    have = collections.Counter((s['name'], t.tracks[s['track']]['name'], s.get('bytes', '-1')) for s in gpu if s['end'])
    for key in set(want) | set(have):
        if want.get(key, 0) != have[key]:
            fail('%s: want %d, have %d' % (key, want.get(key, 0), have[key]))
    if int(t.attrs.get('whyidle.gpu.unfinished', 0)) != unfinished or t.attrs.get('whyidle.gpu.zero_time'):
        fail('operations without times: %s' % t.attrs)
    for s in gpu:
        if s['depth']:
            fail('overlap on one lane: %s' % s)
        parent = t.tracks.get(t.tracks[s['track']]['parent'])
        if not parent or not parent['name'].startswith('GPU '):
            fail('no GPU above %s' % s)


def check_flows(t, gpu, host):
    launches = collections.defaultdict(list)
    for s in host:
        if s.get('flow'):
            launches[s['flow']].append(s)
    for flow, list_ in launches.items():
        if len(list_) != 1:
            fail('%d calls with flow %s: %s' % (len(list_), flow, list_[:3]))
    for s in gpu:
        call = launches.get(s.get('end_flow'))
        if not call:
            fail('nobody launched %s' % s)
        elif s['start'] < call[0]['start'] or ('Memcpy' in s['name']) != ('Memcpy' in call[0]['name']):
            fail('launched by the wrong call: %s %s' % (s, call[0]))


def check_calls(t, host, calls):
    have = collections.Counter((s['name'], t.tracks[s['track']].get('tid')) for s in host)
    for (names, tid), n in calls.items():
        got = sum(have[name, tid] for name in names)
        if got != n:
            fail('%s in thread %s: want %d, have %d' % (names, tid, n, got))


def main():
    t = Trace(sys.stdin)
    ops, calls, unfinished = expected(sys.argv[1])
    mode = sys.argv[2]
    if mode == 'injected':
        calls = {k: n for k, n in calls.items() if k[0][0].startswith(('cudaLaunch', 'cudaMemcpy', 'cudaMemset'))}
    gpu = [s for s in t.slices if t.tracks.get(s['track'], {}).get('name', '').startswith('stream ')]
    host = [s for s in t.slices if t.tracks.get(s['track'], {}).get('tid')]
    unknown = [s for s in t.slices if s not in gpu and s not in host] if len(t.slices) < 20000 else []
    if unknown:
        fail('slices on no known track: %s' % unknown[:3])
    for s in host:
        if s['end'] is None and mode == 'cupti':
            fail('call without end: %s' % s)
    if int(t.attrs.get('whyidle.dropped', 0)) or t.losses:
        fail('events were dropped: %s' % t.attrs)
    if t.late:
        fail('a slice was written %d ms after it had ended' % (t.late // 10**6))
    if mode in ('cupti', 'injected'):
        if t.attrs.get('whyidle.gpu') != 'cupti' or not t.attrs.get('whyidle.gpu.0.name', '').startswith('Simulated'):
            fail('attributes: %s' % t.attrs)
        check_ops(t, gpu, ops, unfinished)
        check_flows(t, gpu, host)
    elif gpu:
        fail('GPU operations from nowhere: %s' % gpu[:3])
    if mode not in ('cupti', 'injected') and not t.attrs.get('whyidle.gpu', '').startswith('none: '):
        fail('attributes: %s' % t.attrs)
    if mode != 'child':
        check_calls(t, host, calls)
    if mode == 'wrappers' and not any(s.get('target') == '_Z5scalePffi' for s in host):
        fail('launches do not name their kernel')
    print('%d GPU operations, %d calls, gpu: %s' % (len(gpu), len(host), t.attrs.get('whyidle.gpu')))
    sys.exit(1 if fail.failed else 0)


if __name__ == '__main__':
    main()
