# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shim_trace import Trace  # noqa: E402

BUILD = sys.argv[1]
PROG, CAT = f'{BUILD}/tests/progs/shim_life', f'{BUILD}/tests/tracecat'
WORK = pathlib.Path(tempfile.mkdtemp(prefix='shim_life.'))
MS = 1_000_000


class Run:
    """One run of a mode: its traces by name, its output, its status."""

    def __init__(self, mode, directory=None, **env):
        self.dir = WORK / f'{mode}.{len(os.listdir(WORK))}'
        self.dir.mkdir()
        self.session = directory or self.dir
        self.env = dict(os.environ, WHYIDLE_DIR=str(self.session), LD_PRELOAD=os.environ['PRELOAD'], **env)
        self.mode = mode

    def go(self):
        done = subprocess.run([PROG, self.mode], cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=60)
        self.rc, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert not self.err, self.err
        return self.load()

    def load(self):
        self.traces = [Trace(p, CAT) for p in sorted(pathlib.Path(self.session).glob('*.pftrace'))]
        for t in self.traces:
            assert t.rc == 0, (t.path, t.err)
            assert t.unmatched_ends == 0, t.path
            check_nesting(t)
        return self

    def log(self):
        p = pathlib.Path(self.session) / 'whyidle.log'
        return p.read_text() if p.exists() else ''


def check_nesting(t):
    """Slices of one track lie inside or beside each other."""
    stack = {}
    for s in sorted(t.slices, key=lambda s: (s.ts, -(s.end or 1 << 62))):
        above = stack.setdefault(s.track, [])
        while above and above[-1].end is not None and above[-1].end <= s.ts:
            above.pop()
        assert not above or above[-1].end is None or (s.end or 0) <= above[-1].end, (t.path, above[-1], s)
        above.append(s)


def marks(t):
    return len(t.named('write', 'pipe:')), len(t.named('read', 'pipe:'))


def ended(t, how='exit', status=0):
    assert t.attributes.get('whyidle.end') == how, (t.path, t.attributes)
    if how != 'exec':
        assert t.attributes.get('whyidle.end_status') == status, t.attributes
    assert not t.open_slices(), t.open_slices()


def one(run):
    assert len(run.traces) == 1, [t.path for t in run.traces]
    return run.traces[0]


def fork_during_calls():
    r = Run('fork-busy').go()
    assert r.rc == 0 and r.out == 'children 20\n'
    assert len(r.traces) == 21
    children = [t for t in r.traces if t.attributes['whyidle.end_status'] == 7]
    assert len(children) == 20
    for t in children:
        ended(t, 'fork-child-exit', 7)
        assert marks(t) == (1, 1), t.slices
        assert all(int(s.args['bytes']) == 1 for s in t.slices)


def threads_that_end_before_the_drain_looks():
    r = Run('threads').go()
    t = one(r)
    assert r.rc == 0 and r.out == 'marks 3000\n'
    lost = t.attributes['whyidle.dropped']
    assert marks(t)[0] + marks(t)[1] + lost >= 6000, (marks(t), lost)
    assert lost < 600, lost


def killed_in_the_middle():
    for _ in range(3):
        r = Run('endless')
        p = subprocess.Popen([PROG, 'endless'], cwd=r.dir, env=r.env, stdout=subprocess.PIPE, text=True)
        time.sleep(0.6)
        p.kill()
        made = [int(line) for line in p.communicate()[0].split() if len(line) > 9]
        t = one(r.load())
        assert 'whyidle.end' not in t.attributes
        have = max(s.end for s in t.named('read', 'pipe:'))
        # 50 ms of period, and what a busy machine adds to it
        assert made[-1] - have <= 100 * MS + 50 * MS, (made[-1] - have) / MS


def killed_in_a_call():
    r = Run('hang')
    p = subprocess.Popen([PROG, 'hang'], cwd=r.dir, env=r.env, stdout=subprocess.PIPE, text=True)
    time.sleep(0.7)
    p.kill()
    p.communicate()
    t = one(r.load())
    assert [s.name for s in t.open_slices()] == ['read'], t.slices
    assert t.open_slices()[0].args['target'].startswith('pipe:['), t.open_slices()


def killed_in_a_connect_that_nobody_answers():
    r = Run('hang-connect')
    p = subprocess.Popen([PROG, 'hang-connect'], cwd=r.dir, env=r.env, stdout=subprocess.PIPE, text=True)
    time.sleep(2.6)
    p.kill()
    port = p.communicate()[0].split()[1]
    t = one(r.load())
    assert [s.name for s in t.open_slices()] == ['connect'], t.slices
    target = t.open_slices()[0].args['target']
    assert target.endswith(f'->127.0.0.1:{port}'), target
    pending = [i for i in t.instants if i.name == 'tcp' and i.args['target'] == target]
    assert all(i.args['state'] == '2' for i in pending), pending
    assert max(int(i.args['retrans']) for i in pending) >= 1, pending


def vfork_children_leave_no_trace():
    r = Run('vfork').go()
    assert r.rc == 0 and r.out == 'marks 3\n', (r.rc, r.out)
    mine = [t for t in r.traces if t.named('vfork')]
    assert len(mine) == 1
    t = mine[0]
    ended(t)
    assert marks(t) == (3, 3), marks(t)
    assert len(t.named('vfork')) == 50
    assert not t.named('dup2') and not t.named('execve')


def spawned():
    r = Run('spawn').go()
    assert r.rc == 0
    t = [t for t in r.traces if t.named('posix_spawn')]
    assert len(t) == 1
    ended(t[0])
    child = t[0].named('posix_spawn')[0].args['target']
    assert child in [s.args.get('target') for s in t[0].named('waitpid')]


def exec_makes_another_file():
    r = Run('exec').go()
    assert r.rc == 0 and len(r.traces) == 2
    first, second = sorted(r.traces, key=lambda t: t.path)
    ended(first, 'exec')
    ended(second)
    assert first.attributes['whyidle.pid'] == second.attributes['whyidle.pid']
    assert marks(first) == marks(second) == (1, 1)
    assert first.path.endswith('.0.pftrace') and second.path.endswith('.1.pftrace')


def host_closes_everything():
    for _ in range(3):
        r = Run('close-all').go()
        assert r.rc == 0 and r.out == 'marks 5\n' and not r.log(), (r.rc, r.out, r.log())
        t = one(r)
        ended(t)
        assert marks(t) == (5, 5), marks(t)


def no_low_descriptor_is_taken():
    r = Run('fds').go()
    bare = subprocess.run([PROG, 'fds'], cwd=r.dir, capture_output=True, text=True, timeout=60)
    assert r.rc == 0 and r.out == bare.stdout, (r.out, bare.stdout)


def file_size_limit():
    r = Run('small-files').go()
    assert r.rc == 0 and r.out == 'alive\n', (r.rc, r.out)
    t = one(r)
    assert os.path.getsize(t.path) <= 16384
    assert 'written' in r.log()


def disk_full():
    place = WORK / 'tiny'
    place.mkdir()
    mount = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', str(place)], capture_output=True)
    if mount.returncode != 0:
        print('  (no small file system can be mounted here: skipped)')
        return
    try:
        r = Run('many', directory=place).go()
        assert r.rc == 0 and r.out == 'alive\n'
        t = one(r)
        assert 0 < os.path.getsize(t.path) <= 65536
        assert t.named('write')
    finally:
        subprocess.run(['umount', '-l', str(place)], check=True)


def no_session_directory():
    r = Run('many', directory=WORK / 'not-there').go()
    assert r.rc == 0 and r.out == 'alive\n'
    place = WORK / 'a-file'
    place.write_text('')
    r = Run('many', directory=place)
    done = subprocess.run([PROG, 'many'], cwd=r.dir, env=r.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == 'alive\n' and not done.stderr


def full_ring_drops_and_counts():
    r = Run('burst', WHYIDLE_RING_KB='4').go()
    t = one(r)
    assert r.rc == 0 and r.out == 'calls 10000\n'
    a = t.attributes
    assert a['whyidle.dropped'] > 0
    assert t.losses > 0
    w, rd = marks(t)
    assert w + rd == a['whyidle.recorded'], (w, rd, a)
    assert a['whyidle.recorded'] + a['whyidle.dropped'] + a['whyidle.short'] >= 10000, a


def short_calls_are_written_up_to_a_rate():
    r = Run('flood', WHYIDLE_RING_KB='16384', WHYIDLE_THRESHOLD_US='1000000').go()
    t = one(r)
    assert r.rc == 0
    a, seconds = t.attributes, (max(s.end for s in t.slices) - min(s.ts for s in t.slices)) / 1e9
    assert a['whyidle.dropped'] == 0, a
    assert a['whyidle.recorded'] <= 20000 * (seconds + 2), (a, seconds)
    assert a['whyidle.recorded'] >= 20000, a
    assert a['whyidle.recorded'] + a['whyidle.short'] >= 120000, a


def a_row_of_tries_is_one_slice():
    r = Run('spin').go()
    t = one(r)
    tries = int(r.out.split()[1])
    rows = [s for s in t.named('recv') if 'n' in s.args]
    assert len(rows) == 1, t.named('recv')
    assert int(rows[0].args['n']) == tries + 1 and rows[0].args['bytes'] == '1', (rows, tries)
    assert rows[0].dur >= 35 * MS, rows


def ends_of_waits_are_kept():
    r = Run('handoff', WHYIDLE_THRESHOLD_US='1000').go()
    t = one(r)
    posts, signals = t.named('sem_post'), t.named('pthread_cond_signal')
    waits, conds = t.named('sem_wait'), t.named('pthread_cond_wait')
    # the first ones teach the shim where libc counts waiters
    assert len(posts) >= 30 and len(signals) >= 30, (len(posts), len(signals))
    assert {s.args['target'] for s in posts} == {s.args['target'] for s in waits}
    assert {s.args['target'] for s in signals} == {s.args['target'] for s in conds}
    # those that nobody waited for are not written
    assert len(posts) <= 60 and len(signals) <= 60, (len(posts), len(signals))


def jumped_out_of_calls():
    r = Run('jumps').go()
    t = one(r)
    assert r.rc == 0 and r.out == 'marks 30\n'
    ended(t)
    assert len(t.named('write', 'pipe:')) == 30
    assert len([s for s in t.named('read') if s.args.get('bytes') == '1']) == 30
    shown = [s for s in t.named('read') if 'bytes' not in s.args]
    assert all(s.dur < 300 * MS for s in shown), shown


def cancelled_in_calls():
    r = Run('cancel').go()
    t = one(r)
    assert r.rc == 0 and r.out == 'marks 10\n'
    ended(t)
    assert len(t.named('write', 'pipe:')) == 10


def handlers_make_calls():
    r = Run('signals').go()
    t = one(r)
    assert r.rc == 0
    made = int(r.out.split()[1])
    assert marks(t)[0] + marks(t)[1] + t.attributes['whyidle.dropped'] >= 2 * made - 2, (made, marks(t), t.attributes)


def fork_behind_our_back():
    r = Run('bare-fork').go()
    assert r.rc == 0 and r.out == 'marks 2\n', (r.rc, r.out)
    parent = [t for t in r.traces if t.attributes['whyidle.end_status'] == 0][0]
    ended(parent)
    assert marks(parent) == (2, 2), parent.slices
    others = [t for t in r.traces if t is not parent]
    assert all(t.attributes['whyidle.end_status'] == 9 for t in others), [t.attributes for t in others]


def alone_after_fork():
    r = Run('alone').go()
    assert r.rc == 0
    assert marks(one(r)) == (2, 2)


def quick_exit_is_an_end():
    r = Run('quick').go()
    assert r.rc == 6
    ended(one(r), status=6)


def dies_of_a_signal():
    for mode, sig in (('abort', signal.SIGABRT), ('segv', signal.SIGSEGV)):
        r = Run(mode)
        done = subprocess.run([PROG, mode], cwd=r.dir, env=r.env, capture_output=True, timeout=60)
        assert done.returncode == -sig, done
        t = one(r.load())
        assert marks(t) == (1, 1)
        assert 'whyidle.end' not in t.attributes


def off_is_off():
    r = Run('fork-busy')
    for change in ({'WHYIDLE_DIR': None}, {'WHYIDLE_DIR': ''}, {'WHYIDLE_DISABLE': '1'}, {'WHYIDLE_ONLY': 'somebody,else'}):
        env = {k: v for k, v in dict(r.env, **change).items() if v is not None}
        done = subprocess.run([PROG, 'fork-busy'], cwd=r.dir, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout == 'children 20\n' and not done.stderr, (change, done)
        assert not list(r.dir.iterdir()), (change, list(r.dir.iterdir()))
    traced = Run('mark', WHYIDLE_ONLY='other,shim_life').go()
    assert len(traced.traces) == 1


def traces_are_private():
    r = Run('mark').go()
    assert os.stat(one(r).path).st_mode & 0o777 == 0o600


TESTS = [fork_during_calls, threads_that_end_before_the_drain_looks, killed_in_the_middle, killed_in_a_call,
         killed_in_a_connect_that_nobody_answers,
         vfork_children_leave_no_trace, spawned, exec_makes_another_file, host_closes_everything, no_low_descriptor_is_taken,
         file_size_limit, disk_full, no_session_directory, full_ring_drops_and_counts, short_calls_are_written_up_to_a_rate,
         a_row_of_tries_is_one_slice, ends_of_waits_are_kept, jumped_out_of_calls, cancelled_in_calls,
         handlers_make_calls, fork_behind_our_back, alone_after_fork, quick_exit_is_an_end, dies_of_a_signal, off_is_off,
         traces_are_private]

failed = 0
only = sys.argv[2:]
for test in TESTS:
    if only and test.__name__ not in only:
        continue
    start = time.monotonic()
    try:
        test()
        print(f'ok    {test.__name__} ({time.monotonic() - start:.1f} s)')
    except (AssertionError, subprocess.TimeoutExpired, IndexError, KeyError, ValueError):
        failed += 1
        print(f'FAIL  {test.__name__}')
        traceback.print_exc(file=sys.stdout)
    sys.stdout.flush()
if not failed:
    shutil.rmtree(WORK)
else:
    print('left in', WORK)
sys.exit(1 if failed else 0)
