/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads as they stand in the file: descriptors, sequences, counters.
 */
#include "shim/lane.h"

#include <string.h>

#include "shim/drain.h"
#include "shim/ident.h"
#include "shim/sys.h"
#include "shim/text.h"

#define MOST_SCHEDSTAT 64	/* descriptors kept open for CPU times */
#define FOREIGN 256
#define COMM_FIRST_NS 500000000u	/* names are given soon after a thread's start */
#define COMM_LAST_NS 16000000000u

static struct lane *lanes;
static unsigned open_schedstat;
static int32_t foreign[FOREIGN];	/* threads without a slot that have been described */

static const char *const meter_names[LANE_METERS] = {
	[METER_CPU] = "cpu ns",
	[METER_RUNQUEUE] = "runqueue ns",
	[METER_SHORT + SHORT_FILE] = "short file ns",
	[METER_SHORT + SHORT_SOCKET] = "short socket ns",
	[METER_SHORT + SHORT_OTHER] = "short other ns",
	[METER_SHORT + SHORT_FOLDED] = "folded ns",
};

struct lane *lane_at(unsigned slot)
{
	if (!lanes)
		lanes = sys_map(THREAD_SLOTS * sizeof(*lanes));
	return lanes ? &lanes[slot] : NULL;
}

static void task_path(char *path, size_t size, int32_t tid, const char *file)
{
	struct text_out o = text_out(path, size);

	text_str(&o, "/proc/self/task/");
	text_uint(&o, (uint64_t)tid);
	text_str(&o, file);
}

/* Reads the thread's name; false when it is what it was. */
static bool name_changed(struct lane *l)
{
	char path[64], comm[16] = "";
	int fd;
	long n;

	task_path(path, sizeof(path), l->tid, "/comm");
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = sys_read(fd, comm, sizeof(comm) - 1);
	sys_close(fd);
	if (n > 0 && comm[n - 1] == '\n')
		comm[n - 1] = 0;
	if (n <= 0 || strcmp(comm, l->comm) == 0)
		return false;
	memcpy(l->comm, comm, sizeof(comm));
	return true;
}

void lane_open(struct pf_writer *w, struct lane *l, unsigned slot, int32_t tid, uint64_t now)
{
	bool fresh = !l->described;

	if (fresh) {
		l->tid = tid;
		l->uuid = drain_uuid("thread", (uint64_t)tid, 0);
		l->seq.id = DRAIN_SEQ_THREAD + slot;
		l->seq.track_uuid = l->uuid;
	}
	if (fresh || now - l->comm_ns >= l->comm_every_ns) {
		l->comm_ns = now;
		l->comm_every_ns = fresh ? COMM_FIRST_NS : l->comm_every_ns * 2;
		if (l->comm_every_ns > COMM_LAST_NS)
			l->comm_every_ns = COMM_LAST_NS;
		if (name_changed(l) || fresh)
			pf_thread_track(w, DRAIN_SEQ_PROCESS, l->uuid, ident.pid, tid, l->comm);
	}
	if (fresh) {
		unsigned i;

		pf_seq_begin(w, &l->seq, now);
		l->described = true;
		for (i = METER_SHORT; i < LANE_METERS; i++)
			l->meter[i].checked_ns = now;
	}
}

uint64_t lane_foreign(struct pf_writer *w, int32_t tid)
{
	struct lane l = { .tid = tid, .uuid = drain_uuid("thread", (uint64_t)tid, 0) };
	unsigned i = (unsigned)tid % FOREIGN;

	if (foreign[i] != tid) {	/* two that share a place are described again and again, which does no harm */
		foreign[i] = tid;
		name_changed(&l);
		pf_thread_track(w, DRAIN_SEQ_PROCESS, l.uuid, ident.pid, tid, l.comm);
	}
	return l.uuid;
}

static void describe_meter(struct pf_writer *w, const struct lane *l, enum lane_meter which, uint64_t uuid)
{
	pf_counter_track(w, DRAIN_SEQ_PROCESS, &(struct pf_counter_track){
		.uuid = uuid, .parent_uuid = l->uuid, .name = meter_names[which], .unit = PF_UNIT_TIME_NS,
	});
}

bool meter_set(struct pf_writer *w, struct lane *l, enum lane_meter which, uint64_t value, uint64_t now)
{
	struct meter *m = &l->meter[which];
	uint64_t uuid;

	if (value == m->value) {
		m->checked_ns = now;
		return false;
	}
	uuid = drain_uuid(meter_names[which], (uint64_t)l->tid, 1);
	if (!m->described) {
		describe_meter(w, l, which, uuid);
		m->described = true;
	}
	if (m->written_ns < m->checked_ns)
		pf_counter(w, &l->seq, m->checked_ns, uuid, (int64_t)m->value);
	pf_counter(w, &l->seq, now, uuid, (int64_t)value);
	m->value = value;
	m->checked_ns = m->written_ns = now;
	return true;
}

/* Gives up the descriptor of the lane whose last event is oldest. */
static void evict(uint64_t newer_than)
{
	struct lane *oldest = NULL;
	unsigned i, n = thread_high();

	for (i = 0; i < n; i++)
		if (lanes[i].schedstat.fd && (!oldest || lanes[i].active_ns < oldest->active_ns))
			oldest = &lanes[i];
	if (!oldest || oldest->active_ns >= newer_than)
		return;
	highfd_close(&oldest->schedstat);
	open_schedstat--;
}

static bool open_schedstat_of(struct lane *l)
{
	char path[64];

	if (l->schedstat.fd)
		return true;
	if (open_schedstat >= MOST_SCHEDSTAT)
		evict(l->active_ns);
	if (open_schedstat >= MOST_SCHEDSTAT)
		return false;
	task_path(path, sizeof(path), l->tid, "/schedstat");
	if (highfd_open(&l->schedstat, path, O_RDONLY, 0) != 0)
		return false;
	open_schedstat++;
	return true;
}

static uint64_t take_number(const char **s)
{
	uint64_t v = 0;

	while (**s >= '0' && **s <= '9')
		v = v * 10 + (uint64_t)(*(*s)++ - '0');
	*s += **s == ' ';
	return v;
}

static void drop_schedstat(struct lane *l)
{
	if (!l->schedstat.fd)
		return;
	highfd_close(&l->schedstat);
	open_schedstat--;
}

bool lane_sample(struct pf_writer *w, struct lane *l, uint64_t now)
{
	char text[96];
	const char *s = text;
	bool ran;
	long n;

	if (!open_schedstat_of(l))
		return false;
	n = highfd_holds(&l->schedstat) ? sys_pread(l->schedstat.fd, text, sizeof(text) - 1, 0) : -EBADF;
	if (n <= 0) {		/* the thread has ended, or the host closed our descriptor: opened anew in the next period */
		drop_schedstat(l);
		return false;
	}
	text[n] = 0;
	ran = meter_set(w, l, METER_CPU, take_number(&s), now);
	meter_set(w, l, METER_RUNQUEUE, take_number(&s), now);
	return ran;
}

void lane_close(struct lane *l)
{
	drop_schedstat(l);
	memset(l, 0, sizeof(*l));
}

void lane_fork_child(void)
{
	if (lanes)
		sys_unmap(lanes, THREAD_SLOTS * sizeof(*lanes));
	lanes = NULL;
	memset(foreign, 0, sizeof(foreign));
	open_schedstat = 0;	/* the descriptors themselves go with highfd_fork_child */
}
