# SPDX-License-Identifier: Apache-2.0
#
# What tracecat prints, as objects: for the tests of the shim.
import re
import subprocess

ITEM = re.compile(r'(\d+) seq=(\d+) (begin|end|instant|counter|track|attribute|loss|clocks)(?: |$)(.*)')
ARG = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|\S+)')


class Slice:
    def __init__(self, ts, name, track, args):
        self.ts, self.end, self.name, self.track, self.args = ts, None, name, track, args

    @property
    def dur(self):
        return None if self.end is None else self.end - self.ts

    def __repr__(self):
        return f'{self.name} {self.ts}+{self.dur} {self.args}'


def parse_args(text):
    return {k: v[1:-1] if v.startswith('"') else v for k, v in ARG.findall(text)}


class Trace:
    """A whole trace: slices in order of begin, attributes, instants, counters by track name, threads."""

    def __init__(self, path, tracecat):
        done = subprocess.run([tracecat, path], capture_output=True, text=True, errors='replace')
        self.path, self.rc, self.err = str(path), done.returncode, done.stderr
        self.slices, self.instants, self.attributes, self.counters, self.tracks = [], [], {}, {}, {}
        self.losses, self.last_ns, self.unmatched_ends = 0, 0, 0
        events = []
        for order, line in enumerate(done.stdout.splitlines()):
            m = ITEM.match(line)
            if not m:
                raise AssertionError(f'unknown line of tracecat: {line!r}')
            ts, kind, rest = int(m[1]), m[3], m[4]
            if kind in ('begin', 'end', 'instant', 'counter'):
                name, args = re.match(r'"((?:[^"\\]|\\.)*)" ?(.*)', rest).groups()
                events.append((ts, order, kind, name, parse_args(args)))
                self.last_ns = max(self.last_ns, ts)
            elif kind == 'track':
                name, args = re.match(r'"((?:[^"\\]|\\.)*)" ?(.*)', rest).groups()
                args = parse_args(args)
                self.tracks[args['uuid']] = dict(args, name=name)
            elif kind == 'attribute':
                key, value = rest.split('=', 1)
                self.attributes[key] = value.strip('"') if value.startswith('"') else int(value)
            elif kind == 'loss':
                self.losses += 1
        stacks = {}
        for ts, _, kind, name, args in sorted(events):
            track = args.pop('track', None)
            if kind == 'begin':
                s = Slice(ts, name, track, args)
                self.slices.append(s)
                stacks.setdefault(track, []).append(s)
            elif kind == 'end':
                if not stacks.get(track):
                    self.unmatched_ends += 1
                    continue
                s = stacks[track].pop()
                s.end = ts
                s.args.update(args)
            elif kind == 'instant':
                self.instants.append(Slice(ts, name, track, args))
            else:
                self.counters.setdefault(self.tracks[track]['name'], []).append((ts, int(args['value'])))

    def named(self, name, target=None):
        return [s for s in self.slices if s.name == name and (target is None or s.args.get('target', '').startswith(target))]

    def open_slices(self):
        return [s for s in self.slices if s.end is None]
