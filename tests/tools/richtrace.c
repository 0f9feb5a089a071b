/* SPDX-License-Identifier: Apache-2.0
 *
 * richtrace FOLDER: writes traces with everything that the writer can say, and beside each what a reader must find in it
 * (NAME.pftrace, NAME.json in the form of tests/perfetto/judge.mjs). The expectation is made from the same calls, by hand, never from
 * the written bytes.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/writer.h"

enum { SEQ_PROCESS = 1, SEQ_MAIN, SEQ_WORKER, SEQ_GPU = 0x10000 };

static uint64_t start_ns = 5000000000;
#define EPOCH_NS 1700000000000000000u

static uint8_t block[1 << 16];
static int out;
static const char *folder;

static int write_out(struct pf_writer *w)
{
	if (write(out, w->buf, w->len) != (ssize_t)w->len)
		return -1;
	w->len = 0;
	return 0;
}

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "richtrace: a packet was not written\n");
	exit(99);
}

/* Name n is "name n"; a few have letters that must survive. */
static const char *look_up(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	static char text[64];
	static const char *const kinds[] = {"name", "key", "string"};
	const char *special = iid == 9 && table == PF_NAMES ? " \xc3\xa4\xe2\x86\x92" : "";

	*len = (size_t)snprintf(text, sizeof(text), "%s %u%s", kinds[table], iid, special);
	return text;
}

static const struct pf_strings strings = {look_up, NULL};

static FILE *expectation;
static const char *separator;

static void open_pair(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.pftrace", folder, name);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	snprintf(path, sizeof(path), "%s/%s.json", folder, name);
	expectation = fopen(path, "w");
	if (out < 0 || !expectation) {
		perror(path);
		exit(99);
	}
}

static void close_pair(struct pf_writer *w)
{
	if (write_out(w) < 0 || close(out) < 0 || fclose(expectation) != 0) {
		perror(folder);
		exit(99);
	}
}

/* Rows of "list" must be told in order of time, which is not the order of writing. */
static void expect_slice(uint64_t ts, int64_t dur, const char *name, unsigned depth, const char *parent, const char *track)
{
	fprintf(expectation, "%s\n  [%" PRIu64 ", %" PRId64 ", \"%s\", %u, ", separator, start_ns + ts, dur, name, depth);
	if (parent)
		fprintf(expectation, "\"%s\", \"%s\"]", parent, track);
	else
		fprintf(expectation, "null, \"%s\"]", track);
	separator = ",";
}

static uint64_t uuid_of(uint32_t process, uint32_t n)
{
	return (process * 1000003ull + n + 1) * 0x9e3779b97f4a7c15u;
}

enum { U_PROCESS, U_MAIN, U_WORKER, U_GPU, U_STREAM, U_LANE, U_CPU, U_BYTES };

static void describe(struct pf_writer *w, int32_t pid)
{
	uint32_t p = (uint32_t)pid;
	const char *argv[] = {"python3", "train.py"}, *labels[] = {"rank 0", "host a"};

	must(pf_trace_uuid(w, 1, p));
	must(pf_clocks(w, SEQ_PROCESS, start_ns, EPOCH_NS + start_ns, start_ns + 77));
	must(pf_process_track(w, SEQ_PROCESS, &(struct pf_process){
		.uuid = uuid_of(p, U_PROCESS), .pid = pid, .start_ns = start_ns - 1000000, .name = "python3", .argv = argv,
		.argc = 2, .labels = labels, .nlabels = 2}));
	must(pf_thread_track(w, SEQ_PROCESS, uuid_of(p, U_MAIN), pid, pid, "main"));
	must(pf_thread_track(w, SEQ_PROCESS, uuid_of(p, U_WORKER), pid, pid + 1, "worker"));
	must(pf_track(w, SEQ_PROCESS, &(struct pf_track){
		.uuid = uuid_of(p, U_GPU), .parent_uuid = uuid_of(p, U_PROCESS), .name = "GPU 0", .description = "a GPU",
		.child_order = PF_ORDER_EXPLICIT, .rank = 2}));
	for (uint32_t lane = U_STREAM; lane <= U_LANE; lane++)
		must(pf_track(w, SEQ_PROCESS, &(struct pf_track){
			.uuid = uuid_of(p, lane), .parent_uuid = uuid_of(p, U_GPU), .name = "stream 7", .rank = 7}));
	must(pf_counter_track(w, SEQ_PROCESS, &(struct pf_counter_track){
		.uuid = uuid_of(p, U_CPU), .parent_uuid = uuid_of(p, U_MAIN), .name = "cpu ns", .unit = PF_UNIT_TIME_NS}));
	must(pf_counter_track(w, SEQ_PROCESS, &(struct pf_counter_track){
		.uuid = uuid_of(p, U_BYTES), .parent_uuid = uuid_of(p, U_PROCESS), .name = "rate", .unit_name = "GB/s"}));
	must(pf_attr_int(w, SEQ_PROCESS, "whyidle.schema", 0));
	must(pf_attr_int(w, SEQ_PROCESS, "whyidle.schema", 1));
	must(pf_attr_int(w, SEQ_PROCESS, "whyidle.rank", -1));
	must(pf_attr_str(w, SEQ_PROCESS, "whyidle.host", "node \"a\"", 8));
}

static struct pf_event at(uint64_t ts, uint32_t name)
{
	return (struct pf_event){.ts_ns = start_ns + ts, .name_iid = name};
}

#define BEGIN(seq, ...) must(pf_begin(w, seq, &strings, &(struct pf_event){__VA_ARGS__}))
#define END(seq, ts) must(pf_end(w, seq, NULL, &(struct pf_event){.ts_ns = start_ns + (ts)}))

/* Both ends at once, as the shim's drain writes what was short. */
static void slice(struct pf_writer *w, struct pf_seq *s, uint64_t ts, uint64_t dur, uint32_t name)
{
	const struct pf_event e = at(ts, name);

	must(pf_begin(w, s, &strings, &e));
	END(s, ts + dur);
}

static void main_thread(struct pf_writer *w, uint32_t p)
{
	static struct pf_seq s;
	const struct pf_arg args[] = {
		{.key_iid = 1, .type = PF_ARG_STR_IID, .v.iid = 1}, {.key_iid = 2, .type = PF_ARG_INT, .v.i = -5},
		{.key_iid = 3, .type = PF_ARG_UINT, .v.u = UINT64_MAX}, {.key_iid = 4, .type = PF_ARG_DOUBLE, .v.d = 0.5},
	};

	s = (struct pf_seq){.id = SEQ_MAIN, .track_uuid = uuid_of(p, U_MAIN)};
	must(pf_seq_begin(w, &s, start_ns + 10));
	/* inner slices first, the outer ones when they end: time runs backwards in the file */
	slice(w, &s, 1200, 100, 3);
	slice(w, &s, 1150, 400, 2);
	slice(w, &s, 1600, 50, 2);
	slice(w, &s, 1000, 1000, 1);
	/* neighbours that touch, one of no length */
	slice(w, &s, 2000, 500, 4);
	slice(w, &s, 2500, 0, 9);
	slice(w, &s, 2500, 500, 5);
	BEGIN(&s, .ts_ns = start_ns + 4000, .name_iid = 6, .flow_id = 100 + p, .args = args, .nargs = 4);
	END(&s, 4200);
	BEGIN(&s, .ts_ns = start_ns + 4300, .name_iid = PF_SEQ_NAMES + 5, .flow_id = 200 + p);
	END(&s, 4350);
	must(pf_instant(w, &s, &strings, &(struct pf_event){.ts_ns = start_ns + 4320, .name_iid = 7}));
	for (unsigned i = 0; i < 3; i++)
		must(pf_counter(w, &s, start_ns + 1000 + i * 1000, uuid_of(p, U_CPU), (int64_t)i * 1000000007));
	/* the process was cut in this call */
	BEGIN(&s, .ts_ns = start_ns + 8000, .name_iid = 8);
}

static void worker_thread(struct pf_writer *w, uint32_t p)
{
	static struct pf_seq s;

	/* begun by its first event */
	s = (struct pf_seq){.id = SEQ_WORKER, .track_uuid = uuid_of(p, U_WORKER)};
	slice(w, &s, 1100, 3000, 1);
	/* state started anew in the middle, names are told again */
	must(pf_seq_begin(w, &s, start_ns + 5000));
	slice(w, &s, 4900, 300, 1);
}

static void gpu(struct pf_writer *w, uint32_t p)
{
	static struct pf_seq s;
	uint64_t lane = uuid_of(p, U_LANE);

	s = (struct pf_seq){.id = SEQ_GPU, .track_uuid = uuid_of(p, U_STREAM)};
	must(pf_seq_begin(w, &s, start_ns + 4100));
	BEGIN(&s, .ts_ns = start_ns + 4150, .name_iid = 10, .end_flow_id = 100 + p);
	END(&s, 4450);
	/* starts before the one before has ended: another lane */
	BEGIN(&s, .ts_ns = start_ns + 4400, .name_iid = 11, .end_flow_id = 200 + p, .track_uuid = lane);
	must(pf_end(w, &s, NULL, &(struct pf_event){.ts_ns = start_ns + 4900, .track_uuid = lane}));
	must(pf_counter(w, &s, start_ns + 4500, uuid_of(p, U_BYTES), -12));
}

static void one_process(struct pf_writer *w, int32_t pid)
{
	describe(w, pid);
	main_thread(w, (uint32_t)pid);
	worker_thread(w, (uint32_t)pid);
	must(pf_clocks(w, SEQ_PROCESS, start_ns + 4950, EPOCH_NS + start_ns + 4950, start_ns + 5027));
	gpu(w, (uint32_t)pid);
	/* somebody set the wall clock back an hour */
	must(pf_clocks(w, SEQ_PROCESS, start_ns + 6000, EPOCH_NS + start_ns - 3600000000000u, start_ns + 6077));
}

static void expect_one_process(void)
{
	separator = "";
	fprintf(expectation, "{\"list\": [");
	expect_slice(1000, 1000, "name 1", 0, NULL, "main");
	expect_slice(1100, 3000, "name 1", 0, NULL, "worker");
	expect_slice(1150, 400, "name 2", 1, "name 1", "main");
	expect_slice(1200, 100, "name 3", 2, "name 2", "main");
	expect_slice(1600, 50, "name 2", 1, "name 1", "main");
	expect_slice(2000, 500, "name 4", 0, NULL, "main");
	expect_slice(2500, 0, "name 9 \xc3\xa4\xe2\x86\x92", 0, NULL, "main");
	expect_slice(2500, 500, "name 5", 0, NULL, "main");
	expect_slice(4000, 200, "name 6", 0, NULL, "main");
	expect_slice(4150, 300, "name 10", 0, NULL, "stream 7");
	expect_slice(4300, 50, "name 4101", 0, NULL, "main");
	expect_slice(4320, 0, "name 7", 1, "name 4101", "main");
	expect_slice(4400, 500, "name 11", 0, NULL, "stream 7");
	expect_slice(4900, 300, "name 1", 0, NULL, "worker");
	expect_slice(8000, -1, "name 8", 0, NULL, "main");
	fprintf(expectation, "],\n\"arrows\": [[\"name 6\", \"name 10\"], [\"name 4101\", \"name 11\"]],\n\"flows\": 2,\n");
	fprintf(expectation, "\"samples\": {\"cpu ns\": [[%" PRIu64 ", 0], [%" PRIu64 ", 1000000007], [%" PRIu64 ", 2000000014]], "
		"\"rate\": [[%" PRIu64 ", -12]]},\n", start_ns + 1000, start_ns + 2000,
		start_ns + 3000, start_ns + 4500);
	fprintf(expectation, "\"threads\": [[4000, 4000, \"main\"], [4000, 4001, \"worker\"]],\n");
	fprintf(expectation, "\"processes\": [[4000, \"python3\"]],\n");
	fprintf(expectation, "\"attributes\": {\"whyidle.schema\": 1, \"whyidle.rank\": -1, \"whyidle.host\": \"node \\\"a\\\"\"}}\n");
}

static void rich(void)
{
	struct pf_writer w = {.buf = block, .cap = sizeof(block), .full = write_out};

	open_pair("rich");
	one_process(&w, 4000);
	expect_one_process();
	close_pair(&w);
}

/* Room for a few packets, then none for a while: a gap that readers must be told of. */
static void loss(void)
{
	static struct pf_seq s;
	static const uint32_t losers[] = {SEQ_MAIN};
	struct pf_writer w = {.buf = block, .cap = sizeof(block)};

	open_pair("loss");
	describe(&w, 4000);
	s = (struct pf_seq){.id = SEQ_MAIN, .track_uuid = uuid_of(4000, U_MAIN)};
	slice(&w, &s, 1000, 100, 1);
	w.cap = w.len;
	if (pf_begin(&w, &s, &strings, &(struct pf_event){.ts_ns = start_ns + 2000, .name_iid = 2}) == 0)
		exit(99);
	w.cap = sizeof(block);
	slice(&w, &s, 3000, 100, 1);
	must(pf_attr_int(&w, SEQ_PROCESS, "whyidle.dropped", (int64_t)w.dropped));
	must(pf_loss(&w, losers, 1));
	fprintf(expectation, "{\"slices\": {\"name 1\": {\"count\": 2, \"dur\": 200, \"open\": 0, \"depth\": 0}},\n"
		"\"stats\": {\"traced_buf_sequence_packet_loss\": 1}}\n");
	close_pair(&w);
}

/*
 * What `cat` may put behind "rich": the same sequence ids, started anew. It lies later in time: Perfetto refuses clock snapshots
 * that go back.
 */
static void second(void)
{
	struct pf_writer w = {.buf = block, .cap = sizeof(block), .full = write_out};

	start_ns += 1000000000;
	open_pair("second");
	one_process(&w, 6000);
	fprintf(expectation, "{}\n");
	close_pair(&w);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: richtrace FOLDER\n");
		return 2;
	}
	folder = argv[1];
	rich();
	loss();
	second();
	return 0;
}
