# SPDX-License-Identifier: Apache-2.0
"""Holds the traces of several ranks against what they said: check_nccl.py EXPECTED TRACECAT TRACE..."""
import collections
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing beside the sources
sys.path.insert(0, __file__.rsplit('/', 1)[0])
from check import Trace, check_flows, fail  # noqa: E402

NONE = str(2**32 - 1)


def check_rank(t, pid, rank, expected, comms):
    host = [s for s in t.slices if t.tracks.get(s['track'], {}).get('tid')]
    gpu = [s for s in t.slices if t.tracks.get(s['track'], {}).get('name', '').startswith('stream ')]
    calls = sorted((s for s in host if s['name'].startswith('nccl')), key=lambda s: s['start'])
    data = [s for s in calls if s.get('bytes')]
    if len(data) != len(expected):
        fail('rank %s: %d calls expected, %d there: %s' % (rank, len(expected), len(data), [s['name'] for s in data]))
    order = collections.defaultdict(int)
    for s in data:
        order[s['comm']] = max(order[s['comm']], int(s.get('seq', 0)))
        match = [e for e in expected if e[1] == s['name'] and e[2] == s.get('seq', '0') and e[3] == s['bytes'] and
                 comms.setdefault(e[0], s['comm']) == s['comm']]
        if not match:
            fail('rank %s: not expected: %s (communicators %s)' % (rank, s, comms))
        elif int(s['nranks']) != (4 if match[0][0] == 'world' else 2) or \
                int(s['rank']) != (int(rank) if match[0][0] == 'world' else int(rank) // 2):
            fail('rank %s: wrong place: %s' % (rank, s))
        want = {'ncclSend': ('peer', (int(rank) + 1) % 4), 'ncclRecv': ('peer', (int(rank) + 3) % 4), 'ncclBcast': ('root', 1)}
        key, value = want.get(s['name'], ('op', None))
        if value is not None and s.get(key) != str(value):
            fail('rank %s: %s should have %s %s' % (rank, s, key, value))
        if NONE in (s.get('peer'), s.get('root'), s.get('op'), s.get('dtype')):
            fail('absent written as a number: %s' % s)
        if [x for x in calls if x is not s and s['start'] < x['start'] and x['end'] < s['end']]:
            fail('a call inside of a call: %s' % s)
    inits = [s for s in calls if s['name'].startswith('ncclCommInit')]
    if len(inits) != 1 or inits[0].get('comm') != comms.get('world') or inits[0].get('nranks') != '4':
        fail('rank %s: initialisation: %s (%s)' % (rank, inits, comms))
    kernels = [s for s in gpu if 'ncclDevKernel' in s['name']]
    if len(kernels) != 15:  # 10 + broadcast + ring + reduce-scatter + a group on two communicators
        fail('rank %s: %d communication kernels' % (rank, len(kernels)))
    check_flows(t, gpu, host)
    for s in kernels:
        launch = [x for x in host if x.get('flow') == s.get('end_flow')]
        if launch and not launch[0]['name'].startswith('cuLaunchKernel'):
            fail('not launched by the driver: %s' % launch)
        if launch and not [c for c in calls if c['start'] <= launch[0]['start'] and launch[0]['end'] <= c['end']]:
            fail('launched outside of NCCL: %s' % launch)
    if int(t.attrs.get('whyidle.dropped', 0)) or t.losses:
        fail('events were dropped')
    print('rank %s: %d calls, %d kernels' % (rank, len(calls), len(kernels)))


def main():
    expected, ranks, comms = collections.defaultdict(list), {}, {}
    for line in open(sys.argv[1]):
        what, pid, *rest = line.rstrip('\n').split('|')
        if what == 'nccl':
            expected[pid].append(tuple(rest))
        elif what == 'rank':
            ranks[pid] = rest[0]
    for path in sys.argv[3:]:
        t = Trace(subprocess.run([sys.argv[2], path], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines())
        pid = t.attrs.get('whyidle.pid')
        if pid in ranks:
            check_rank(t, pid, ranks.pop(pid), expected[pid], comms)
    if ranks:
        fail('no trace of %s' % ranks)
    if len(set(comms.values())) != 3:
        fail('communicators are not told apart: %s' % comms)
    sys.exit(1 if fail.failed else 0)


main()
