#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a stretch of a recorded session as an SVG: what the Perfetto UI would show, small enough for a page.

usage: draw_timeline.py TRACECAT SESSION OUT.svg [START_S LENGTH_S]

TRACECAT is build/tests/tracecat. Times count from the first event. Rows: each GPU stream, each thread that recorded something in the stretch.
"""
import collections
import glob
import html
import os
import re
import subprocess
import sys

LINE = re.compile(r'^(\d+) seq=(\d+) (\w+)(?: "((?:[^"\\]|\\.)*)")?(.*)$')
WIDTH, LEFT, ROW, GAP = 1100, 250, 18, 6
COLOURS = (
    (r'^nccl', '#c2571a'), (r'^Memcpy', '#7a5195'), (r'^(p?read|fread|recv)', '#2f7d4f'), (r'^(write|fsync|fwrite)', '#8a6d1d'),
    (r'^(poll|select|sem_|pthread_cond|epoll)', '#b8b8b8'), (r'^cuda.*Sync', '#9a3b5b'), (r'^cuda', '#3f6fb5'),
)


def colour(name, gpu):
    for pattern, value in COLOURS:
        if re.match(pattern, name):
            return value
    return '#2a5db0' if gpu else '#888888'


def read(tracecat, path):
    """Slices (track uuid, start, end, name) and track descriptions of one file."""
    tracks, open_slices, slices, attributes = {}, collections.defaultdict(list), [], {}
    out = subprocess.run([tracecat, path], stdout=subprocess.PIPE, text=True, errors='replace').stdout
    events = []
    for line in out.splitlines():
        m = LINE.match(line)
        if not m:
            continue
        at, kind, name, rest = int(m[1]), m[3], m[4] or '', m[5]
        if kind == 'track':
            f = dict(p.split('=', 1) for p in rest.split() if '=' in p)
            tracks[f['uuid']] = dict(name=name, parent=f.get('parent'), tid=f.get('tid'), pid=f.get('pid'))
        elif kind == 'attribute':
            m2 = re.match(r'\s*"?([\w.]+)"?[= ]"?([^"]*)"?', rest)
            if m2:
                attributes[m2[1]] = m2[2]
        elif kind in ('begin', 'end'):
            uuid = re.search(r'track=(\w+)', rest)[1]
            events.append((at, 0 if kind == 'end' else 1, len(events), uuid, name))
    for at, begins, _, uuid, name in sorted(events):
        if begins:
            open_slices[uuid].append((at, name))
        elif open_slices[uuid]:
            start, opened = open_slices[uuid].pop()
            slices.append((uuid, start, at, opened))
    return tracks, slices, attributes


def short(name):
    """A mangled kernel name to the last plain part of it, which is what a person reads."""
    m = re.match(r'_ZN?K?', name)
    if not m:
        return name
    rest, last = name[m.end():], name
    while True:
        m = re.match(r'(\d+)', rest)
        if not m or not int(m[1]):
            return last
        last, rest = rest[m.end():m.end() + int(m[1])], rest[m.end() + int(m[1]):]
        if not name.startswith('_ZN'):
            return last


def merged(slices, gpu, nearby):
    """Longest first; neighbours of one colour that are too narrow to be told apart become one."""
    out = []
    for a, b, name in sorted(slices):
        name = short(name)
        if out and colour(out[-1][2], gpu) == colour(name, gpu) and a - out[-1][1] < nearby and b - a < 8 * nearby and b > out[-1][1]:
            out[-1][1] = b
        else:
            out.append([a, b, name])
    return sorted(out, key=lambda s: s[0] - s[1])


def main():
    tracecat, session, out = sys.argv[1:4]
    files = [read(tracecat, p) for p in sorted(glob.glob(os.path.join(session, '*.pftrace')))]
    gpu_files = [f for f in files if any(t['name'].startswith('GPU ') for t in f[0].values())]
    first = min(s[1] for f in gpu_files for s in f[1] if f[0].get(s[0], {}).get('name', '').startswith('stream'))
    start = first + int(float(sys.argv[4] if len(sys.argv) > 4 else 2) * 1e9)
    length = int(float(sys.argv[5] if len(sys.argv) > 5 else 0.6) * 1e9)
    rows = collections.OrderedDict()
    for tracks, slices, attributes in files:
        for uuid, a, b, name in slices:
            if b < start or a > start + length:
                continue
            track = tracks.get(uuid, dict(name='?', tid=None, pid=None, parent=None))
            gpu = track['name'].startswith('stream')
            rank = attributes.get('whyidle.rank', '')
            who = 'rank %s' % rank if rank not in ('', '-1') else track['name']
            label = '%s  %s' % (who, ('GPU ' + track['name']) if gpu else '%s (%s)' % (track['name'] or 'thread', track['tid']))
            key = (rank if rank not in ('', '-1') else '9', 0 if gpu else 1, label)
            rows.setdefault(key, [gpu, []])[1].append((a, b, name))
    rows = sorted(rows.items())
    scale = (WIDTH - LEFT - 10) / length
    height = 40 + len(rows) * (ROW + GAP)
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">' % (WIDTH, height),
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    for i in range(7):
        x = LEFT + i * (WIDTH - LEFT - 10) / 6
        svg.append('<line x1="%.1f" x2="%.1f" y1="22" y2="%d" stroke="#e4e4e4"/><text x="%.1f" y="15" text-anchor="middle" fill="#555">%.0f ms</text>'
                   % (x, x, height, x, i * length / 6e6))
    for n, ((_, _, label), (gpu, slices)) in enumerate(rows):
        y = 28 + n * (ROW + GAP)
        svg.append('<text x="%d" y="%d" text-anchor="end" fill="#222">%s</text>' % (LEFT - 8, y + 13, html.escape(label[:42])))
        svg.append('<rect x="%d" y="%d" width="%d" height="%d" fill="#f5f5f5"/>' % (LEFT, y, WIDTH - LEFT - 10, ROW))
        for a, b, name in merged(slices, gpu, 0.5 / scale):
            a, b = max(a, start), min(b, start + length)
            w = (b - a) * scale
            x = LEFT + (a - start) * scale
            svg.append('<rect x="%.1f" y="%d" width="%.2f" height="%d" fill="%s"/>' % (x, y, max(w, 0.4), ROW, colour(name, gpu)))
            if w > 46:
                svg.append('<text x="%.1f" y="%d" fill="#fff" font-size="10">%s</text>' % (x + 3, y + 13, html.escape(name[:int(w / 6.2)])))
    svg.append('</svg>')
    with open(out, 'w') as f:
        f.write('\n'.join(svg) + '\n')


main()
