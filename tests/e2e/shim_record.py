# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shim_trace import Trace  # noqa: E402

BUILD = sys.argv[1]


def record(part, work, **env):
    session = pathlib.Path(work) / f'session-{part}'
    session.mkdir()
    done = subprocess.run([f'{BUILD}/tests/progs/shim_calls', part], cwd=work, capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, LD_PRELOAD=os.environ['PRELOAD'], WHYIDLE_DIR=str(session), **env))
    if done.returncode != 0:
        raise SystemExit(f'{part}: exit {done.returncode}: {done.stderr}')
    traces = [Trace(p, f'{BUILD}/tests/tracecat') for p in session.glob('*.pftrace')]
    return done.stdout.splitlines(), max(traces, key=lambda t: len(t.slices))


def fits(want, have):
    return want == '' or have == want or (want.endswith('*') and have.startswith(want[:-1]))


def compare(part, lines, trace):
    """Each expected line is the next slice of the main thread."""
    pid = trace.attributes['whyidle.pid']
    mine = [s for s in trace.slices if trace.tracks[s.track]['tid'] == str(pid)]
    bad = 0
    for i, line in enumerate(lines):
        name, target, size, err = line.split('|')
        s = mine[i] if i < len(mine) else None
        ok = s and s.name == name and fits(target, s.args.get('target', '')) and s.end is not None and \
            s.args.get('bytes', '-1') == size and s.args.get('errno', '0') == err
        if not ok:
            print(f'{part}: slice {i} should be {line}, is {s}')
            bad += 1
            if bad > 3:
                break
    # what follows is the printing of the lines and the end
    extra = [s for s in mine[len(lines):] if s.name not in ('write', 'fflush', 'fwrite')]
    if extra and not bad:
        print(f'{part}: not expected: {extra[:5]}')
        bad += 1
    print(f'{part}: {len(lines)} slices, {bad} wrong')
    return bad


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for part in ('files', 'pipes', 'sockets', 'waits'):
            lines, trace = record(part, os.path.realpath(work), WHYIDLE_THRESHOLD_US='0')
            if trace.rc != 0 or trace.unmatched_ends or trace.open_slices():
                print(part, trace.err, trace.unmatched_ends, trace.open_slices())
                bad += 1
            bad += compare(part, lines, trace)
            if part == 'files' and not trace.counters.get('folded ns'):
                print('files: nothing was folded')
                bad += 1
            if part == 'sockets':
                tcp = [i for i in trace.instants if i.name == 'tcp']
                roles = {i.args['role'] for i in tcp}
                if 'nccl' not in roles:
                    print('sockets: no connection was taken for NCCL data:', tcp)
                    bad += 1
            if 'cpu ns' not in trace.counters:
                print(part, 'no CPU time was written')
                bad += 1
        # At the usual threshold the short ones are only counted, and the ends of waits are kept.
        for part in ('files', 'pipes'):
            os.mkdir(f'{work}/{part}')
            lines, trace = record(part, f'{os.path.realpath(work)}/{part}', WHYIDLE_THRESHOLD_US='1000000')
            kept = [s for s in trace.slices if s.name in ('read', 'write') and 'errno' not in s.args]
            if part == 'files' and [s for s in kept if s.args['target'].startswith('/')]:
                print('files: short reads were written', kept)
                bad += 1
            if part == 'pipes' and len(kept) < 2:
                print('pipes: short reads and writes of pipes were not written', trace.slices)
                bad += 1
            if trace.attributes['whyidle.short'] < 2:
                print(part, 'short calls were not counted', trace.attributes)
                bad += 1
    return 1 if bad else 0


sys.exit(main())
