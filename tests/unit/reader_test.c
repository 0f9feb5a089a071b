/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader on our own traces: what goes in comes out, whole, cut, damaged, compressed, joined, from files and pipes.
 * Traces of other tools are in reader_foreign_test.c. WHYIDLE_SEED=n repeats a run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "trace/reader.h"
#include "trace/writer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

/* --- a growing text, to hold items as lines --- */

struct text {
	char *p;
	size_t len, room;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
	va_list ap;
	int n;

	if (t->len + 512 > t->room) {
		t->room = (t->len + 512) * 2;
		t->p = realloc(t->p, t->room);
		assert_non_null(t->p);
	}
	va_start(ap, format);
	n = vsnprintf(t->p + t->len, t->room - t->len, format, ap);
	va_end(ap);
	if ((size_t)n >= t->room - t->len) {
		t->room += (size_t)n * 2;
		t->p = realloc(t->p, t->room);
		assert_non_null(t->p);
		va_start(ap, format);
		n = vsnprintf(t->p + t->len, t->room - t->len, format, ap);
		va_end(ap);
	}
	t->len += (size_t)n;
}

static void text_free(struct text *t)
{
	free(t->p);
	*t = (struct text){0};
}

static void say_event(struct text *t, const char *kind, uint64_t ts_ns, uint32_t seq, uint64_t track, const char *name)
{
	say(t, "%s %" PRIu64 " seq %u track %" PRIu64 " '%s'", kind, ts_ns, seq, track, name);
}

static void say_item(struct text *t, const struct pf_item *item)
{
	static const char *const kinds[] = {"begin", "end", "instant", "counter"};

	switch (item->kind) {
	case PF_TRACK:
		say(t, "track %" PRIu64 " '%s' pid %d tid %" PRId64 "\n", item->track->uuid, item->track->name,
		    item->track->pid, item->track->tid);
		return;
	case PF_CLOCKS:
		say(t, "clocks %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", item->monotonic_ns, item->realtime_ns, item->boottime_ns);
		return;
	case PF_ATTRIBUTE:
		say(t, "attribute %s %d %" PRId64 " '%s'\n", item->attr_key, item->attr_is_int, item->attr_int, item->attr_str);
		return;
	case PF_LOSS:
		say(t, "loss seq %u\n", item->seq);
		return;
	default:
		break;
	}
	say_event(t, kinds[item->kind], item->ts_ns, item->seq, item->track->uuid, item->name);
	if (item->kind == PF_COUNTER)
		say(t, " = %" PRId64, item->counter);
	if (item->flow_id || item->end_flow_id)
		say(t, " flow %" PRIu64 " %" PRIu64, item->flow_id, item->end_flow_id);
	for (unsigned i = 0; i < item->nargs; i++) {
		const struct pf_annotation *a = &item->args[i];

		if (a->type == PF_A_STRING)
			say(t, " %s='%s'", a->key, a->v.s.p);
		else
			say(t, " %s=%d:%" PRIx64, a->key, a->type, a->v.u);
	}
	say(t, "\n");
}

/* Everything a reader gives, and what it ends with. */
static int read_all(struct pf_reader *r, struct text *t, struct pf_error *err)
{
	struct pf_item item;
	int rc;

	while ((rc = pf_reader_next(r, &item, err)) > 0)
		say_item(t, &item);
	return rc;
}

static int read_memory(const void *data, size_t len, struct text *t, struct pf_error *err)
{
	/* exactly as large as the data, so that a sanitizer sees each byte beyond */
	uint8_t *copy = malloc(len ? len : 1);
	struct pf_reader *r;
	int rc = -1;

	assert_non_null(copy);
	if (len)
		memcpy(copy, data, len);
	memset(err, 0, sizeof(*err));
	r = pf_reader_open_memory(copy, len, err);
	if (r)
		rc = read_all(r, t, err);
	pf_reader_close(r);
	free(copy);
	return rc;
}

/* --- random traces, with the text that must come out --- */

static uint64_t rng_state = 88172645463325252;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t below(uint64_t n)
{
	return rng() % n;
}

static void seed_rng(void)
{
	const char *given = getenv("WHYIDLE_SEED");

	rng_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u;
	rng_state |= 1;
	print_message("WHYIDLE_SEED=%" PRIu64 "\n", rng_state);
}

static const char *lookup(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	static char text[3][64];

	(void)ctx;
	*len = (size_t)snprintf(text[table], sizeof(text[0]), "%c %u", "nks"[table], iid);
	return text[table];
}

static const struct pf_strings strings = {lookup, NULL};

#define SEQS 5

struct made {
	uint8_t *bytes;
	size_t len, room;
	struct text text;		/* what must be read, in file order */
	struct pf_seq seq[SEQS];
	struct pf_writer w;
};

static int take(struct pf_writer *w)
{
	struct made *m = w->ctx;

	if (m->len + w->len > m->room) {
		m->room = (m->len + w->len) * 2;
		m->bytes = realloc(m->bytes, m->room);
		assert_non_null(m->bytes);
	}
	memcpy(m->bytes + m->len, w->buf, w->len);
	m->len += w->len;
	w->len = 0;
	return 0;
}

static void made_free(struct made *m)
{
	free(m->bytes);
	text_free(&m->text);
}

static uint32_t any_iid(void)
{
	return (uint32_t)below(below(4) ? 30 : PF_SEQ_NAMES + 100);
}

static void make_event(struct made *m, uint64_t *now_ns)
{
	static const char *const kinds[] = {"begin", "end", "instant", "counter"};
	struct pf_seq *s = &m->seq[below(SEQS)];
	struct pf_arg args[16];
	struct pf_event e = {.name_iid = any_iid(), .args = args, .nargs = (unsigned)(below(2) ? 0 : below(17))};
	unsigned kind = (unsigned)below(4);
	int64_t counter = (int64_t)(rng() >> below(64));
	uint64_t track;
	char name[64] = "";

	*now_ns += below(1000000);
	e.ts_ns = *now_ns - (below(5) ? 0 : below(100000000));
	e.track_uuid = below(3) ? 0 : 1 + below(20);
	track = e.track_uuid ? e.track_uuid : s->track_uuid;
	if (below(4) == 0)
		e.flow_id = rng();
	if (below(4) == 0)
		e.end_flow_id = rng();
	if (below(30) == 0)
		assert_int_equal(pf_seq_begin(&m->w, s, e.ts_ns), 0);
	if (kind == 3) {
		say_event(&m->text, kinds[kind], e.ts_ns, s->id, track, "");
		say(&m->text, " = %" PRId64 "\n", counter);
		assert_int_equal(pf_counter(&m->w, s, e.ts_ns, e.track_uuid, counter), 0);
		return;
	}
	if (e.name_iid)
		snprintf(name, sizeof(name), "n %u", e.name_iid);
	say_event(&m->text, kinds[kind], e.ts_ns, s->id, track, name);
	if (e.flow_id || e.end_flow_id)
		say(&m->text, " flow %" PRIu64 " %" PRIu64, e.flow_id, e.end_flow_id);
	for (unsigned i = 0; i < e.nargs; i++) {
		static const int types[] = {PF_A_UINT, PF_A_INT, PF_A_STRING, PF_A_DOUBLE};
		struct pf_arg *a = &args[i];

		a->key_iid = 1 + any_iid();
		a->type = (enum pf_arg_type)below(4);
		a->v.u = rng() >> below(64);
		say(&m->text, " k %u=", a->key_iid);
		if (a->type == PF_ARG_STR_IID) {
			a->v.iid = 1 + any_iid();
			say(&m->text, "'s %u'", a->v.iid);
		} else {
			say(&m->text, "%d:%" PRIx64, types[a->type], a->v.u);
		}
	}
	say(&m->text, "\n");
	assert_int_equal((kind == 0 ? pf_begin : kind == 1 ? pf_end : pf_instant)(&m->w, s, &strings, &e), 0);
}

static void make(struct made *m, unsigned nevents)
{
	static uint8_t block[1 << 16];
	uint64_t now_ns = 1000000000 + below(1u << 30), start_ns = now_ns;
	const char *argv[] = {"a", "b"};

	memset(m, 0, sizeof(*m));
	m->w = (struct pf_writer){.buf = block, .cap = sizeof(block), .full = take, .ctx = m};
	for (unsigned i = 0; i < SEQS; i++)
		m->seq[i] = (struct pf_seq){.id = i < 3 ? i + 2 : 0x10000 * i, .track_uuid = 100 + i};
	pf_trace_uuid(&m->w, 1, 2);
	pf_clocks(&m->w, 1, start_ns, 7, 8);
	say(&m->text, "clocks %" PRIu64 " 7 8\n", start_ns);
	pf_process_track(&m->w, 1, &(struct pf_process){.uuid = 99, .pid = 44, .name = "p", .argv = argv, .argc = 2});
	say(&m->text, "track 99 'p' pid 44 tid 0\n");
	pf_thread_track(&m->w, 1, 100, 44, 45, "t");
	say(&m->text, "track 100 't' pid 44 tid 45\n");
	pf_attr_int(&m->w, 1, "i", -3);
	say(&m->text, "attribute i 1 -3 ''\n");
	pf_attr_str(&m->w, 1, "s", "value", 5);
	say(&m->text, "attribute s 0 0 'value'\n");
	for (unsigned i = 0; i < nevents; i++)
		make_event(m, &now_ns);
	take(&m->w);
}

static void reader_gives_back_what_the_writer_wrote(void **state)
{
	(void)state;
	seed_rng();
	for (unsigned round = 0; round < 40; round++) {
		struct made m;
		struct text t = {0};
		struct pf_error err;

		make(&m, 400);
		assert_int_equal(read_memory(m.bytes, m.len, &t, &err), 0);
		assert_string_equal(t.p, m.text.p);
		text_free(&t);
		made_free(&m);
	}
}

/* --- files, pipes, compression --- */

static char scratch[] = "/tmp/whyidle-reader-XXXXXX";

static const char *in_scratch(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

static const char *write_file(const char *name, const void *data, size_t len)
{
	const char *path = in_scratch(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
	return path;
}

static uint8_t *deflated(const uint8_t *data, size_t len, int window_bits, size_t *out_len)
{
	z_stream z = {0};
	size_t room = len + len / 8 + 1024;
	uint8_t *out = malloc(room);

	assert_non_null(out);
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (uint8_t *)(uintptr_t)data;
	z.avail_in = (unsigned)len;
	z.next_out = out;
	z.avail_out = (unsigned)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	*out_len = z.total_out;
	deflateEnd(&z);
	return out;
}

static void assert_file_reads(const char *path, const char *want)
{
	struct text t = {0};
	struct pf_error err = {0};
	struct pf_reader *r = pf_reader_open(path, &err);

	assert_non_null(r);
	assert_int_equal(read_all(r, &t, &err), 0);
	assert_string_equal(t.p, want);
	assert_int_equal(pf_reader_offset(r), pf_reader_size(r));
	pf_reader_close(r);
	text_free(&t);
}

static void reader_reads_plain_and_gzipped_files(void **state)
{
	struct made m;
	uint8_t *z;
	size_t zlen;
	struct text twice = {0};
	(void)state;

	seed_rng();
	make(&m, 30000);		/* several windows long */
	assert_file_reads(write_file("plain", m.bytes, m.len), m.text.p);
	z = deflated(m.bytes, m.len, 15 + 16, &zlen);
	assert_file_reads(write_file("gzipped", z, zlen), m.text.p);
	/* two members, and zeros behind them */
	z = realloc(z, zlen * 2 + 3);
	memcpy(z + zlen, z, zlen);
	memset(z + 2 * zlen, 0, 3);
	say(&twice, "%s", m.text.p);
	say(&twice, "%s", m.text.p);
	assert_file_reads(write_file("gzipped twice", z, zlen * 2 + 3), twice.p);
	text_free(&twice);
	free(z);
	made_free(&m);
}

/* A child that writes the bytes into a pipe in pieces; the path to read them from. */
static pid_t pipe_in_pieces(const uint8_t *bytes, size_t len, char *path, size_t path_room)
{
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(ends[0]);
		for (size_t at = 0, n = 1; at < len; at += n, n = n * 7 % 4093 + 1) {
			n = n < len - at ? n : len - at;
			if (write(ends[1], bytes + at, n) != (ssize_t)n)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	snprintf(path, path_room, "/dev/fd/%d", ends[0]);
	return child;
}

static void reader_reads_pipes_in_pieces(void **state)
{
	struct made m;
	(void)state;

	seed_rng();
	make(&m, 3000);
	for (unsigned zipped = 0; zipped < 2; zipped++) {
		size_t len = m.len;
		uint8_t *bytes = zipped ? deflated(m.bytes, m.len, 15 + 16, &len) : m.bytes;
		struct text t = {0};
		struct pf_error err = {0};
		struct pf_reader *r;
		char path[64];
		pid_t child = pipe_in_pieces(bytes, len, path, sizeof(path));

		r = pf_reader_open(path, &err);
		assert_non_null(r);
		close(atoi(path + 8));
		assert_int_equal(read_all(r, &t, &err), 0);
		assert_string_equal(t.p, m.text.p);
		assert_int_equal(pf_reader_size(r), 0);
		pf_reader_close(r);
		assert_int_equal(waitpid(child, NULL, 0), child);
		text_free(&t);
		if (zipped)
			free(bytes);
	}
	made_free(&m);
}

/* A packet around a bundle of packets. */
static uint8_t *bundled(const uint8_t *data, size_t len, size_t *out_len)
{
	size_t zlen, n = 0;
	uint8_t *z = deflated(data, len, 15, &zlen), *out = malloc(zlen + 32);
	uint64_t lens[2] = {0, zlen};

	assert_non_null(out);
	for (uint64_t v = zlen; v; v >>= 7)
		lens[0]++;
	lens[0] += 2 + zlen;		/* two bytes of tag for field 50 */
	out[n++] = 0x0a;
	for (unsigned i = 0; i < 2; i++) {
		for (; lens[i] >= 0x80; lens[i] >>= 7)
			out[n++] = (uint8_t)(lens[i] | 0x80);
		out[n++] = (uint8_t)lens[i];
		if (i == 0) {
			out[n++] = 0x92;
			out[n++] = 0x03;
		}
	}
	memcpy(out + n, z, zlen);
	free(z);
	*out_len = n + zlen;
	return out;
}

static void reader_reads_bundles_of_packets(void **state)
{
	struct made m;
	size_t len, twice_len;
	uint8_t *bundle, *twice;
	struct text t = {0};
	struct pf_error err;
	(void)state;

	seed_rng();
	make(&m, 5000);
	bundle = bundled(m.bytes, m.len, &len);
	assert_int_equal(read_memory(bundle, len, &t, &err), 0);
	assert_string_equal(t.p, m.text.p);
	text_free(&t);

	twice = bundled(bundle, len, &twice_len);
	assert_int_equal(read_memory(twice, twice_len, &t, &err), -1);
	assert_int_equal(err.code, PF_EDAMAGED);
	free(twice);
	text_free(&t);

	/* damage within: what came before is delivered, and it is the bundle that is blamed */
	bundle[len - 3] ^= 0x55;
	bundle[len - 2] ^= 0x55;
	assert_int_equal(read_memory(bundle, len, &t, &err), -1);
	assert_int_equal(err.code, PF_EDAMAGED);
	assert_int_equal(err.offset, 0);
	assert_true(t.len > 0);
	text_free(&t);
	free(bundle);
	made_free(&m);
}

static void reader_reads_files_joined_by_cat(void **state)
{
	struct made a, b;
	uint8_t *both;
	struct text t = {0}, want = {0};
	struct pf_error err;
	(void)state;

	/* the same sequence ids and iids; time need not go forward from one to the next */
	seed_rng();
	make(&a, 500);
	make(&b, 500);
	both = malloc(a.len + b.len);
	memcpy(both, a.bytes, a.len);
	memcpy(both + a.len, b.bytes, b.len);
	say(&want, "%s", a.text.p);
	say(&want, "%s", b.text.p);
	assert_int_equal(read_memory(both, a.len + b.len, &t, &err), 0);
	assert_string_equal(t.p, want.p);
	text_free(&t);
	memcpy(both, b.bytes, b.len);
	memcpy(both + b.len, a.bytes, a.len);
	want.len = 0;
	say(&want, "%s", b.text.p);
	say(&want, "%s", a.text.p);
	assert_int_equal(read_memory(both, a.len + b.len, &t, &err), 0);
	assert_string_equal(t.p, want.p);
	text_free(&t);
	text_free(&want);
	free(both);
	made_free(&a);
	made_free(&b);
}

static void reader_skips_zero_padding(void **state)
{
	struct made m;
	uint8_t *padded;
	(void)state;

	make(&m, 10);
	padded = calloc(1, m.len * 2 + 4000);
	for (size_t pad = 0; pad < 70; pad++) {
		/* in front, between the first two packets, at the end */
		size_t first = 2 + m.bytes[1], n = pad * 13;
		struct text t = {0};
		struct pf_error err;

		memset(padded, 0, m.len * 2 + 4000);
		memcpy(padded + n, m.bytes, first);
		memcpy(padded + n + first + n, m.bytes + first, m.len - first);
		assert_int_equal(read_memory(padded, m.len + 3 * n, &t, &err), 0);
		assert_string_equal(t.p, m.text.p);
		text_free(&t);
	}
	free(padded);
	made_free(&m);
}

/* --- cut and damaged --- */

static void reader_delivers_what_every_prefix_holds(void **state)
{
	struct made m;
	size_t full, ends = 0;
	(void)state;

	seed_rng();
	make(&m, 150);
	full = m.len;
	for (size_t len = 0; len < full; len++) {
		struct text t = {0};
		struct pf_error err;
		int rc = read_memory(m.bytes, len, &t, &err);

		if (rc == 0) {
			ends++;
		} else {
			assert_int_equal(err.code, PF_ECUT);
			assert_true(err.offset <= len);
			assert_true(err.text[0] != '\0');
		}
		assert_true(t.len <= m.text.len);
		if (t.len)
			assert_memory_equal(t.p, m.text.p, t.len);
		text_free(&t);
	}
	/* as many clean ends as there are packets before the last */
	assert_int_equal(ends, m.w.packets - 1);
	made_free(&m);
}

static void reader_delivers_what_every_prefix_of_a_gzipped_file_holds(void **state)
{
	struct made m;
	size_t zlen;
	uint8_t *z;
	(void)state;

	seed_rng();
	make(&m, 100);
	z = deflated(m.bytes, m.len, 15 + 16, &zlen);
	for (size_t len = 2; len < zlen; len++) {
		struct text t = {0};
		struct pf_error err;

		assert_int_equal(read_memory(z, len, &t, &err), -1);
		assert_int_equal(err.code, PF_ECUT);
		assert_true(t.len <= m.text.len);
		if (t.len)
			assert_memory_equal(t.p, m.text.p, t.len);
		text_free(&t);
	}
	free(z);
	made_free(&m);
}

static void reader_survives_flipped_bits(void **state)
{
	struct made m;
	size_t zlen;
	uint8_t *z;
	(void)state;

	seed_rng();
	make(&m, 30);
	for (size_t bit = 0; bit < m.len * 8; bit += SLOW ? 5 : 1) {
		struct text t = {0};
		struct pf_error err;

		m.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (read_memory(m.bytes, m.len, &t, &err) < 0)
			assert_true(err.code != PF_OK && err.text[0]);
		m.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		text_free(&t);
	}
	z = bundled(m.bytes, m.len, &zlen);
	for (size_t bit = 0; bit < zlen * 8; bit += SLOW ? 5 : 1) {
		struct text t = {0};
		struct pf_error err;

		z[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (read_memory(z, zlen, &t, &err) < 0)
			assert_true(err.code != PF_OK && err.text[0]);
		z[bit / 8] ^= (uint8_t)(1 << bit % 8);
		text_free(&t);
	}
	free(z);
	made_free(&m);
}

static void reader_survives_random_bytes_in_good_traces(void **state)
{
	(void)state;
	seed_rng();
	for (unsigned round = 0; round < (SLOW ? 300 : 3000); round++) {
		struct made m;
		struct text t = {0};
		struct pf_error err;

		make(&m, 20);
		for (unsigned n = 1 + (unsigned)below(20); n; n--)
			m.bytes[below(m.len)] = (uint8_t)rng();
		read_memory(m.bytes, m.len, &t, &err);
		text_free(&t);
		made_free(&m);
	}
}

static void reader_says_where_the_damage_is_and_says_it_again(void **state)
{
	struct made m;
	struct pf_error err, again;
	struct pf_reader *r;
	struct text t = {0};
	size_t good;
	(void)state;

	make(&m, 50);
	good = m.len;
	m.bytes = realloc(m.bytes, m.len + 8);
	memcpy(m.bytes + good, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	r = pf_reader_open_memory(m.bytes, good + 8, &err);
	assert_non_null(r);
	assert_int_equal(read_all(r, &t, &err), -1);
	assert_string_equal(t.p, m.text.p);
	assert_int_equal(err.code, PF_EDAMAGED);
	assert_int_equal(err.offset, good);
	assert_int_equal(read_all(r, &t, &again), -1);
	assert_memory_equal(&again, &err, sizeof(err));
	pf_reader_close(r);
	text_free(&t);
	made_free(&m);
}

static void assert_refused(const void *data, size_t len, enum pf_read_error code, const char *word)
{
	struct pf_error err = {0};
	struct pf_reader *r = pf_reader_open_memory(data, len, &err);

	assert_null(r);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, word))
		fail_msg("\"%s\" lacks \"%s\"", err.text, word);
}

static void reader_refuses_what_is_no_trace(void **state)
{
	static uint8_t noise[4096];
	struct pf_error err;
	(void)state;

	assert_refused("{\"traceEvents\": []}", 19, PF_ENOT_A_TRACE, "JSON");
	assert_refused("\177ELF\2\1\1", 7, PF_ENOT_A_TRACE, "program");
	assert_refused("PK\3\4.....", 9, PF_ENOT_A_TRACE, "zip");
	assert_refused("\x28\xb5\x2f\xfd....", 8, PF_ENOT_A_TRACE, "zstd");
	assert_refused("#!/bin/sh\necho\n", 15, PF_ENOT_A_TRACE, "not");
	assert_refused("\nA text that begins with an empty line, as long as its second byte says and longer still.\n", 91,
		       PF_ENOT_A_TRACE, "not");
	for (unsigned i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)(i * 7 + 1);
	assert_refused(noise, sizeof(noise), PF_ENOT_A_TRACE, "not");
	assert_refused("", 0, PF_ECUT, "empty");
	assert_null(pf_reader_open(in_scratch("not there"), &err));
	assert_int_equal(err.code, PF_EOPEN);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_null(pf_reader_open(scratch, &err));
	assert_int_equal(err.code, PF_EOPEN);
	assert_int_equal(err.sys_errno, EISDIR);
}

static void reader_refuses_a_packet_longer_than_it_may_be(void **state)
{
	struct made m;
	struct pf_error err;
	struct text t = {0};
	(void)state;

	make(&m, 5);
	m.bytes = realloc(m.bytes, m.len + 16);
	memcpy(m.bytes + m.len, "\x0a\xff\xff\xff\xff\x0f", 6);
	assert_int_equal(read_memory(m.bytes, m.len + 6, &t, &err), -1);
	assert_int_equal(err.code, PF_EDAMAGED);
	assert_int_equal(err.offset, m.len);
	text_free(&t);
	/* 2^63 bytes */
	memcpy(m.bytes + m.len, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
	assert_int_equal(read_memory(m.bytes, m.len + 10, &t, &err), -1);
	assert_int_equal(err.code, PF_EDAMAGED);
	text_free(&t);
	made_free(&m);
}

static void reader_reports_loss_where_it_happened(void **state)
{
	uint8_t buf[4096];
	struct pf_writer w = {.buf = buf, .cap = sizeof(buf)};
	struct pf_seq s = {.id = 7, .track_uuid = 1};
	struct pf_event e = {.ts_ns = 100, .name_iid = 1};
	const uint32_t losers[] = {9};
	struct text t = {0};
	struct pf_error err;
	(void)state;

	pf_begin(&w, &s, &strings, &e);
	w.cap = w.len;
	assert_int_equal(pf_begin(&w, &s, &strings, &e), -ENOBUFS);
	w.cap = sizeof(buf);
	e.name_iid = 0;
	pf_end(&w, &s, NULL, &e);
	pf_loss(&w, losers, 1);
	assert_int_equal(read_memory(buf, w.len, &t, &err), 0);
	assert_string_equal(t.p, "begin 100 seq 7 track 1 'n 1'\nloss seq 7\nend 100 seq 7 track 1 ''\nloss seq 9\n");
	text_free(&t);
}

static void reader_tells_all_that_descriptors_say(void **state)
{
	uint8_t buf[4096];
	struct pf_writer w = {.buf = buf, .cap = sizeof(buf)};
	const char *argv[] = {"python3", "x.py"}, *labels[] = {"rank 3"};
	struct pf_error err;
	struct pf_reader *r;
	struct pf_item item;
	(void)state;

	pf_process_track(&w, 1, &(struct pf_process){.uuid = 5, .pid = 77, .start_ns = 123, .name = "python3", .argv = argv,
			 .argc = 2, .labels = labels, .nlabels = 1});
	pf_thread_track(&w, 1, 6, 77, 78, "old");
	pf_counter_track(&w, 1, &(struct pf_counter_track){.uuid = 7, .parent_uuid = 6, .name = "cpu ns"});
	pf_thread_track(&w, 1, 6, 77, 78, "new");
	r = pf_reader_open_memory(buf, w.len, &err);
	assert_non_null(r);
	assert_int_equal(pf_reader_next(r, &item, &err), 1);
	assert_int_equal(item.kind, PF_TRACK);
	assert_true(item.track->is_process && !item.track->is_thread && !item.track->is_counter);
	assert_int_equal(item.track->uuid, 5);
	assert_int_equal(item.track->pid, 77);
	assert_int_equal(item.track->start_ns, 123);
	assert_string_equal(item.track->name, "python3");
	assert_int_equal(item.track->argc, 2);
	assert_string_equal(item.track->argv[1], "x.py");
	assert_int_equal(item.track->nlabels, 1);
	assert_string_equal(item.track->labels[0], "rank 3");
	assert_null(item.track->user);
	item.track->user = r;
	assert_int_equal(pf_reader_next(r, &item, &err), 1);
	assert_true(item.track->is_thread);
	assert_int_equal(item.track->tid, 78);
	assert_string_equal(item.track->name, "old");
	assert_int_equal(pf_reader_next(r, &item, &err), 1);
	assert_true(item.track->is_counter);
	assert_int_equal(item.track->parent_uuid, 6);
	assert_int_equal(pf_reader_next(r, &item, &err), 1);
	assert_string_equal(item.track->name, "new");
	assert_int_equal(pf_reader_next(r, &item, &err), 0);
	pf_reader_close(r);
}

static void reader_numbers_equal_names_alike(void **state)
{
	static uint8_t buf[1 << 16];
	struct pf_writer w = {.buf = buf, .cap = sizeof(buf)};
	static struct pf_seq s[2] = {{.id = 2, .track_uuid = 1}, {.id = 3, .track_uuid = 2}};
	struct pf_arg arg = {.key_iid = 4, .type = PF_ARG_STR_IID, .v.iid = 8};
	struct pf_event e = {.ts_ns = 1, .name_iid = 5, .args = &arg, .nargs = 1};
	uint32_t name_id = 0, key_id = 0, string_id = 0;
	struct pf_error err;
	struct pf_reader *r;
	struct pf_item item;
	unsigned n = 0;
	(void)state;

	for (unsigned i = 0; i < 6; i++) {
		if (i == 4)
			pf_seq_begin(&w, &s[0], 50);
		pf_begin(&w, &s[i % 2], &strings, &e);
	}
	r = pf_reader_open_memory(buf, w.len, &err);
	for (; pf_reader_next(r, &item, &err) > 0; n++) {
		if (n == 0) {
			name_id = item.name_id;
			key_id = item.args[0].key_id;
			string_id = item.args[0].v.s.id;
			assert_true(name_id && key_id && string_id);
		}
		assert_int_equal(item.name_id, name_id);
		assert_int_equal(item.args[0].key_id, key_id);
		assert_int_equal(item.args[0].v.s.id, string_id);
	}
	assert_int_equal(n, 6);
	pf_reader_close(r);
}

/* --- memory --- */

static size_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*s %zu", &pages), 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int write_through(struct pf_writer *w)
{
	for (size_t at = 0; at < w->len;) {
		ssize_t n = write(*(int *)w->ctx, w->buf + at, w->len - at);

		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	w->len = 0;
	return 0;
}

/* Long, with restarts, so that whatever is kept per event or per restart would show. */
static void write_long_trace(int fd, unsigned slices)
{
	static uint8_t block[1 << 16];
	static struct pf_seq s[4];
	struct pf_writer w = {.buf = block, .cap = sizeof(block), .full = write_through, .ctx = &fd};
	struct pf_event e = {.ts_ns = 1000};

	for (unsigned i = 0; i < 4; i++)
		s[i] = (struct pf_seq){.id = i + 1, .track_uuid = i + 1};
	for (unsigned i = 0; i < slices; i++) {
		struct pf_seq *q = &s[i % 4];

		if (i % 5000 < 4) {
			pf_seq_begin(&w, q, e.ts_ns);
			pf_thread_track(&w, 1, q->track_uuid, 1, 1 + i % 4, i % 10000 < 5 ? "one" : "two");
			pf_clocks(&w, 1, e.ts_ns, e.ts_ns, e.ts_ns);
			pf_attr_int(&w, 1, "i", i);
		}
		e.name_iid = 1 + i % 3000;
		e.ts_ns += 20000;
		pf_begin(&w, q, &strings, &e);
		e.ts_ns += 20000;
		pf_end(&w, q, NULL, &e);
	}
	write_through(&w);
}

static void reader_needs_no_more_memory_for_a_longer_trace(void **state)
{
	unsigned slices = SLOW ? 1000000 : 10000000, seen = 0;
	size_t early = 0;
	int ends[2], rc;
	pid_t child;
	char path[64];
	struct pf_error err;
	struct pf_reader *r;
	struct pf_item item;
	(void)state;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(ends[0]);
		write_long_trace(ends[1], slices);
		_exit(0);
	}
	close(ends[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	r = pf_reader_open(path, &err);
	close(ends[0]);
	assert_non_null(r);
	while ((rc = pf_reader_next(r, &item, &err)) > 0)
		if (item.kind == PF_SLICE_BEGIN && ++seen == slices / 10)
			early = resident_bytes();
	assert_int_equal(rc, 0);
	assert_int_equal(seen, slices);
	if (resident_bytes() > early + (SLOW ? 16 : 1) * (1u << 20))
		fail_msg("%zu bytes after a tenth, %zu at the end", early, resident_bytes());
	print_message("%" PRIu64 " MB read, %zu kB resident\n", pf_reader_offset(r) >> 20, resident_bytes() >> 10);
	pf_reader_close(r);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static int make_scratch(void **state)
{
	(void)state;
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
	static const char *const names[] = {"plain", "gzipped", "gzipped twice"};

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(in_scratch(names[i]));
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_gives_back_what_the_writer_wrote),
		cmocka_unit_test(reader_reads_plain_and_gzipped_files),
		cmocka_unit_test(reader_reads_pipes_in_pieces),
		cmocka_unit_test(reader_reads_bundles_of_packets),
		cmocka_unit_test(reader_reads_files_joined_by_cat),
		cmocka_unit_test(reader_skips_zero_padding),
		cmocka_unit_test(reader_delivers_what_every_prefix_holds),
		cmocka_unit_test(reader_delivers_what_every_prefix_of_a_gzipped_file_holds),
		cmocka_unit_test(reader_survives_flipped_bits),
		cmocka_unit_test(reader_survives_random_bytes_in_good_traces),
		cmocka_unit_test(reader_says_where_the_damage_is_and_says_it_again),
		cmocka_unit_test(reader_refuses_what_is_no_trace),
		cmocka_unit_test(reader_refuses_a_packet_longer_than_it_may_be),
		cmocka_unit_test(reader_reports_loss_where_it_happened),
		cmocka_unit_test(reader_tells_all_that_descriptors_say),
		cmocka_unit_test(reader_numbers_equal_names_alike),
		cmocka_unit_test(reader_needs_no_more_memory_for_a_longer_trace),
	};

	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
