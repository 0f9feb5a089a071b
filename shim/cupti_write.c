/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the drain thread: no allocation but the mmap at the start, no lock, no stdio, no CUDA.
 */
#include "shim/cupti_write.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/cupti_clock.h"
#include "shim/cupti_lanes.h"
#include "shim/drain.h"
#include "shim/strings.h"

#define BATCH 32768
#define THREADS 512
#define DEVICES 256
#define NAMES 1024			/* power of two */
#define SEEN 32768			/* power of two */
#define NAME_BYTES_MAX 4000		/* of the string table's 4 KB */

struct op {
	uint64_t start_ns, end_ns;
	int64_t bytes;
	struct lanes_stream *stream;
	uint32_t name, correlation;
};

struct api {
	uint64_t start_ns, end_ns;
	uint32_t thread, correlation;
	uint32_t call;
	int result;
};

struct key {
	uint64_t start_ns;
	uint32_t index;
};

struct thread {
	int64_t tid;
	uint64_t uuid;			/* asked anew for each batch */
	struct pf_seq seq;
};

/* One mmap, touched where it is used. */
struct batch {
	struct op ops[BATCH];
	struct api apis[BATCH];
	struct key keys[BATCH], scratch[BATCH];
	struct pf_seq streams[LANES_STREAMS];
	struct thread threads[THREADS];
	struct {
		const char *at;		/* where CUPTI had the bytes */
		uint32_t iid, len;
	} names[NAMES];
	uint32_t seen[SEEN];		/* correlations whose call has been written */
};

static struct batch *batch;
static unsigned int nops, napis, nthreads, last_thread;
static bool device_described[DEVICES];
static struct cupti_write_counts counts;
static uint64_t process_uuid;

int cupti_write_init(void)
{
	void *m;

	if (batch)
		return 0;
	m = mmap(NULL, sizeof(*batch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m == MAP_FAILED)
		return -ENOMEM;
	batch = m;
	process_uuid = drain_process_uuid();
	return 0;
}

const struct cupti_write_counts *cupti_write_counts(void)
{
	return &counts;
}

uint64_t cupti_write_flow(uint32_t correlation)
{
	uint64_t x = process_uuid ^ (correlation * 0x9e3779b97f4a7c15u);

	if (!correlation)
		return 0;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return x ? x : 1;
}

/* ---- names */

static uint32_t intern(const char *s, size_t len)
{
	uint32_t iid = strings_intern(PF_NAMES, s, len);

	return iid ? iid : strings_intern(PF_NAMES, "?", 1);
}

/* Kernels come from few places; the place says the name as long as the bytes are still the same (a module may be unloaded and
 * another one loaded there). */
static uint32_t kernel_name(const char *s)
{
	unsigned int slot = (unsigned int)(((uintptr_t)s * 0x9e3779b97f4a7c15u) >> 48) % NAMES;
	const struct pf_strings *table = strings_lookup();
	size_t len;

	if (batch->names[slot].at == s) {
		const char *have = table->lookup(table->ctx, PF_NAMES, batch->names[slot].iid, &len);

		if (have && len == batch->names[slot].len && !strncmp(s, have, len) && (!s[len] || len == NAME_BYTES_MAX))
			return batch->names[slot].iid;
	}
	len = strnlen(s, NAME_BYTES_MAX);
	batch->names[slot].at = s;
	batch->names[slot].len = (uint32_t)len;
	batch->names[slot].iid = intern(s, len);
	return batch->names[slot].iid;
}

static uint32_t op_name(const struct cupti_record *r)
{
	char buf[64];
	size_t len;

	if (r->name)
		return kernel_name(r->name);
	len = cupti_record_copy_name(r, buf);
	return intern(buf, len);
}

/* ---- collecting */

static uint64_t map_end(const struct cupti_clock *clock, uint64_t start_ns, uint64_t end)
{
	uint64_t end_ns = cupti_clock_map(clock, end);

	return end_ns < start_ns ? start_ns : end_ns;	/* the clock was stepped within */
}

static void add_op(const struct cupti_clock *clock, const struct cupti_record *r, bool forced)
{
	struct op *op = &batch->ops[nops];

	if (!r->end && (r->start || forced))
		counts.unfinished++;
	else if (!r->start)
		counts.zero_time++;
	if (!r->start)
		return;
	op->stream = lanes_stream(r->device, r->context, r->stream);
	if (!op->stream) {
		counts.crowded++;
		drain_count_dropped(1);
		return;
	}
	op->start_ns = cupti_clock_map(clock, r->start);
	op->end_ns = r->end ? map_end(clock, op->start_ns, r->end) : UINT64_MAX;
	op->bytes = r->bytes;
	op->name = op_name(r);
	op->correlation = r->correlation;
	nops++;
}

static int thread_index(int64_t tid)
{
	if (last_thread < nthreads && batch->threads[last_thread].tid == tid)
		return (int)last_thread;
	for (unsigned int i = 0; i < nthreads; i++) {
		if (batch->threads[i].tid == tid) {
			last_thread = i;
			return (int)i;
		}
	}
	if (nthreads == THREADS)
		return -1;
	batch->threads[nthreads].tid = tid;
	batch->threads[nthreads].seq.id = DRAIN_SEQ_HOOK + nthreads;
	last_thread = nthreads++;
	return (int)last_thread;
}

static void add_api(const struct cupti_clock *clock, const struct cupti_record *r)
{
	struct api *api = &batch->apis[napis];
	int thread;

	if (r->call == CALL_NONE || !r->start || !r->end)
		return;
	thread = thread_index(r->tid);
	if (thread < 0) {
		counts.crowded++;
		drain_count_dropped(1);
		return;
	}
	api->start_ns = cupti_clock_map(clock, r->start);
	api->end_ns = map_end(clock, api->start_ns, r->end);
	api->thread = (uint32_t)thread;
	api->correlation = r->correlation;
	api->call = r->call;
	api->result = r->result;
	napis++;
}

static char *put_decimal(char *p, uint32_t n)
{
	char digits[12];
	unsigned int d = 0;

	do
		digits[d++] = (char)('0' + n % 10);
	while (n /= 10);
	while (d)
		*p++ = digits[--d];
	*p = '\0';
	return p;
}

static void add_device(const struct cupti_record *r)
{
	char key[48] = "whyidle.gpu.";

	if (!r->name)
		return;
	strcpy(put_decimal(key + strlen(key), r->device), ".name");
	drain_attr_str(key, r->name);
}

void cupti_write_add(struct pf_writer *w, const struct cupti_clock *clock, const struct cupti_record *r, uint64_t now_ns,
		     bool forced)
{
	switch (r->type) {
	case RECORD_OP:
		if (nops == BATCH)
			cupti_write_flush(w, now_ns);
		add_op(clock, r, forced);
		break;
	case RECORD_API:
		if (napis == BATCH)
			cupti_write_flush(w, now_ns);
		add_api(clock, r);
		break;
	case RECORD_OVERHEAD:
		if (r->start && r->end > r->start)
			counts.overhead_ns += r->end - r->start;
		break;
	case RECORD_DEVICE:
		add_device(r);
		break;
	case RECORD_OTHER:
		break;
	}
}

/* ---- order */

static bool is_sorted(const struct key *k, unsigned int n)
{
	for (unsigned int i = 1; i < n; i++) {
		if (k[i].start_ns < k[i - 1].start_ns)
			return false;
	}
	return true;
}

/* Bottom-up merge sort (libc's qsort may allocate). Leaves the result in `k`. */
static void sort_keys(struct key *k, struct key *tmp, unsigned int n)
{
	struct key *from = k, *to = tmp;

	if (is_sorted(k, n))
		return;
	for (unsigned int width = 1; width < n; width *= 2) {
		for (unsigned int lo = 0; lo < n; lo += 2 * width) {
			unsigned int mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
			unsigned int i = lo, j = mid;

			for (unsigned int o = lo; o < hi; o++)
				to[o] = i < mid && (j >= hi || from[i].start_ns <= from[j].start_ns) ? from[i++] : from[j++];
		}
		struct key *swap = from;

		from = to;
		to = swap;
	}
	if (from != k)
		memcpy(k, from, n * sizeof(*k));
}

/* ---- writing */

static int describe_device(struct pf_writer *w, uint32_t device, uint64_t *uuid)
{
	char name[16] = "GPU ";
	int r;

	*uuid = drain_uuid("gpu", device, 0);
	if (device < DEVICES && device_described[device])
		return 0;
	put_decimal(name + 4, device);
	r = pf_track(w, DRAIN_SEQ_PROCESS, &(struct pf_track){.uuid = *uuid, .parent_uuid = process_uuid, .name = name});
	if (!r && device < DEVICES)
		device_described[device] = true;
	return r;
}

static int describe_lane(struct pf_writer *w, struct lanes_stream *s, unsigned int lane)
{
	char name[24] = "stream ";
	uint64_t uuid = drain_uuid("stream", (uint64_t)s->context << 32 | s->stream, (uint64_t)s->device << 32 | lane), gpu;
	int r = describe_device(w, s->device, &gpu);

	if (r)
		return r;
	put_decimal(name + 7, s->stream);
	r = pf_track(w, DRAIN_SEQ_PROCESS, &(struct pf_track){.uuid = uuid, .parent_uuid = gpu, .name = name});
	if (!r)
		s->lane[lane].uuid = uuid;
	return r;
}

static int seq_ready(struct pf_writer *w, struct pf_seq *seq, uint32_t id, uint64_t track, uint64_t now_ns)
{
	if (seq->open)
		return 0;
	seq->id = id;
	seq->track_uuid = track;
	return pf_seq_begin(w, seq, now_ns);
}

static int write_op(struct pf_writer *w, const struct op *op, uint64_t now_ns)
{
	struct lanes_stream *s = op->stream;
	struct pf_seq *seq = &batch->streams[s->index];
	struct pf_arg bytes = {.key_iid = KEY_bytes, .type = PF_ARG_INT, .v.i = op->bytes};
	struct pf_event e = {.ts_ns = op->start_ns, .name_iid = op->name, .end_flow_id = cupti_write_flow(op->correlation)};
	int lane = lanes_book(s, op->start_ns, op->end_ns), r;

	if (lane < 0) {
		counts.crowded++;
		return -ENOSPC;
	}
	if (!s->lane[lane].uuid && (r = describe_lane(w, s, (unsigned int)lane)))
		return r;
	r = seq_ready(w, seq, DRAIN_SEQ_DEVICE + s->index, s->lane[lane].uuid, now_ns);
	if (r)
		return r;
	e.track_uuid = s->lane[lane].uuid == seq->track_uuid ? 0 : s->lane[lane].uuid;
	if (op->bytes >= 0) {
		e.args = &bytes;
		e.nargs = 1;
	}
	r = pf_begin(w, seq, strings_lookup(), &e);
	if (r || op->end_ns == UINT64_MAX)
		return r;
	return pf_end(w, seq, strings_lookup(), &(struct pf_event){.ts_ns = op->end_ns, .track_uuid = e.track_uuid});
}

static int write_api(struct pf_writer *w, const struct api *api, uint64_t now_ns)
{
	struct thread *t = &batch->threads[api->thread];
	struct pf_arg error = {.key_iid = KEY_errno, .type = PF_ARG_INT, .v.i = api->result};
	struct pf_event e = {.ts_ns = api->start_ns, .name_iid = api->call, .flow_id = cupti_write_flow(api->correlation)};
	int r;

	if (!t->uuid)
		t->uuid = drain_thread_track(w, t->tid);
	r = seq_ready(w, &t->seq, t->seq.id, t->uuid, now_ns);
	if (r)
		return r;
	e.track_uuid = t->uuid == t->seq.track_uuid ? 0 : t->uuid;
	if (api->result) {
		e.args = &error;
		e.nargs = 1;
	}
	r = pf_begin(w, &t->seq, strings_lookup(), &e);
	if (r)
		return r;
	return pf_end(w, &t->seq, strings_lookup(), &(struct pf_event){.ts_ns = api->end_ns, .track_uuid = e.track_uuid});
}

/* One operation may have an API record of the runtime and one of the driver call inside it, with one correlation id. Sorted by
 * start the outer one comes first; the other is the same event by another route. */
static bool seen_before(uint32_t correlation)
{
	uint32_t *slot = &batch->seen[correlation % SEEN];

	if (!correlation)
		return false;
	if (*slot == correlation)
		return true;
	*slot = correlation;
	return false;
}

static void count(int r)
{
	if (r)
		drain_count_dropped(1);
	else
		drain_count_recorded(1);
}

void cupti_write_flush(struct pf_writer *w, uint64_t now_ns)
{
	if (!batch)
		return;
	for (unsigned int i = 0; i < napis; i++)
		batch->keys[i] = (struct key){batch->apis[i].start_ns, i};
	sort_keys(batch->keys, batch->scratch, napis);
	for (unsigned int i = 0; i < nthreads; i++)
		batch->threads[i].uuid = 0;
	for (unsigned int i = 0; i < napis; i++) {
		const struct api *api = &batch->apis[batch->keys[i].index];

		if (!seen_before(api->correlation))
			count(write_api(w, api, now_ns));
	}
	for (unsigned int i = 0; i < nops; i++)
		batch->keys[i] = (struct key){batch->ops[i].start_ns, i};
	sort_keys(batch->keys, batch->scratch, nops);
	for (unsigned int i = 0; i < nops; i++)
		count(write_op(w, &batch->ops[batch->keys[i].index], now_ns));
	napis = nops = 0;
}
