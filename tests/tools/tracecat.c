/* SPDX-License-Identifier: Apache-2.0
 *
 * tracecat FILE: prints a trace, one line per item, for tests and debugging. What is read before an error is printed; the
 * exit status is 0 at the end of the file, 1 when it was cut or damaged, 2 for wrong usage, 3 when it could not be read.
 */
#include <inttypes.h>
#include <stdio.h>

#include "trace/reader.h"

static void print_string(const char *s, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
			printf("\\x%02x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_args(const struct pf_item *item)
{
	for (unsigned i = 0; i < item->nargs; i++) {
		const struct pf_annotation *a = &item->args[i];

		printf(" %s=", a->key);
		switch (a->type) {
		case PF_A_UINT:
			printf("%" PRIu64, a->v.u);
			break;
		case PF_A_INT:
			printf("%" PRId64, a->v.i);
			break;
		case PF_A_BOOL:
			printf("%s", a->v.u ? "true" : "false");
			break;
		case PF_A_DOUBLE:
			printf("%.17g", a->v.d);
			break;
		case PF_A_STRING:
			print_string(a->v.s.p, a->v.s.len);
			break;
		}
	}
}

static void print_track(const struct pf_track_info *t)
{
	printf(" uuid=%016" PRIx64 " parent=%016" PRIx64, t->uuid, t->parent_uuid);
	if (t->is_process || t->is_thread)
		printf(" pid=%d", t->pid);
	if (t->is_thread)
		printf(" tid=%" PRId64, t->tid);
	if (t->is_counter)
		printf(" counter");
	if (t->start_ns)
		printf(" start=%" PRIu64, t->start_ns);
	for (unsigned i = 0; i < t->argc; i++)
		printf(" argv=%s", t->argv[i]);
	for (unsigned i = 0; i < t->nlabels; i++)
		printf(" label=%s", t->labels[i]);
}

static void print_item(const struct pf_item *item)
{
	static const char *const kinds[] = {"begin", "end", "instant", "counter", "track", "clocks", "attribute", "loss"};

	printf("%" PRIu64 " seq=%u %s", item->ts_ns, item->seq, kinds[item->kind]);
	if (item->kind <= PF_TRACK) {
		putchar(' ');
		print_string(item->name, __builtin_strlen(item->name));
	}
	switch (item->kind) {
	case PF_SLICE_BEGIN:
	case PF_SLICE_END:
	case PF_INSTANT:
	case PF_COUNTER:
		printf(" track=%016" PRIx64, item->track->uuid);
		if (item->kind == PF_COUNTER)
			printf(" value=%" PRId64, item->counter);
		if (item->flow_id)
			printf(" flow=%" PRIu64, item->flow_id);
		if (item->end_flow_id)
			printf(" end_flow=%" PRIu64, item->end_flow_id);
		print_args(item);
		break;
	case PF_TRACK:
		print_track(item->track);
		break;
	case PF_CLOCKS:
		printf(" monotonic=%" PRIu64 " realtime=%" PRIu64 " boottime=%" PRIu64, item->monotonic_ns,
		       item->realtime_ns, item->boottime_ns);
		break;
	case PF_ATTRIBUTE:
		printf(" %s=", item->attr_key);
		if (item->attr_is_int)
			printf("%" PRId64, item->attr_int);
		else
			print_string(item->attr_str, __builtin_strlen(item->attr_str));
		break;
	case PF_LOSS:
		printf(" packets=%" PRIu64, item->lost_packets);
		break;
	}
	putchar('\n');
}

static int complain(const char *path, const struct pf_error *err)
{
	fflush(stdout);
	fprintf(stderr, "tracecat: %s: byte %" PRIu64 ": %s\n", path, err->offset, err->text);
	switch (err->code) {
	case PF_ECUT:
	case PF_EDAMAGED:
		return 1;
	default:
		return 3;
	}
}

int main(int argc, char **argv)
{
	struct pf_error err;
	struct pf_reader *r;
	struct pf_item item;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: tracecat FILE\n");
		return 2;
	}
	r = pf_reader_open(argv[1], &err);
	if (!r)
		return complain(argv[1], &err);
	while ((rc = pf_reader_next(r, &item, &err)) > 0)
		print_item(&item);
	if (rc < 0)
		rc = complain(argv[1], &err);
	pf_reader_close(r);
	return rc;
}
