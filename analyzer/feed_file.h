/* SPDX-License-Identifier: Apache-2.0
 *
 * One trace file while it is read: its reader, what its numbers mean, its process. For feed*.c only.
 */
#ifndef WHYIDLE_ANALYZER_FEED_FILE_H
#define WHYIDLE_ANALYZER_FEED_FILE_H

#include "analyzer/feed.h"
#include "analyzer/timeline_build.h"
#include "trace/reader.h"

enum { FEED_STACK = 64 };

/* A call or operation that has begun; the newest is the one that ends next. */
struct feed_open_slice {
	struct slice s;
	struct nccl_info nccl;
	bool in_timeline;		/* given to the timeline as still running */
};

enum feed_track_kind { FT_IGNORED, FT_PROCESS, FT_THREAD, FT_STREAM, FT_COUNTER };

struct feed_track {
	enum feed_track_kind kind;
	struct process *process;
	struct thread *thread;
	struct device *device;
	uint32_t stream;
	enum use_counter counter;
	unsigned depth;
	unsigned ignored_depth;		/* begun beyond FEED_STACK */
	struct feed_open_slice *stack;	/* of FEED_STACK */
	struct feed_track *next;	/* all of the file */
};

/* What the head of the file said. */
struct feed_head {
	bool ours;
	char *host, *boot;
	int pid, ppid, rank, local_rank, world_size, cpus;
	int64_t mono_ns, real_ns;	/* first snapshot; 0 = none */
	int64_t first_ns;		/* first time stamp of the file, its own clock */
};

struct feed_file {
	char *path;
	bool named;			/* given by the user, not found in a directory */
	enum { FILE_WAITING, FILE_OPEN, FILE_DONE } state;
	struct pf_reader *reader;
	struct kineto *kineto;		/* a profiler's trace, NULL = not one */
	struct feed_head head;
	uint64_t size, done;
	int64_t offset_ns;		/* added to every time stamp */
	uint64_t family;
	int64_t watermark_ns;		/* everything that ended before is in; on the common clock */
	int64_t newest_ns;
	int64_t items;			/* since the watermark last moved */
	struct process *process;	/* of the file, when it is one of ours */
	const struct text **names, **strings;
	size_t names_cap, strings_cap;
	uint8_t *keys;
	size_t keys_cap;
	struct feed_track *tracks;
	struct { uint64_t uuid; struct pf_track_info *info; } *uuids;
	size_t nuuids, uuids_cap;
	int64_t lost;			/* by PF_LOSS, for files that are not ours */
};

/* Reads the head. 0, or -1 with *err. */
int feed_head(struct feed_file *f, struct pf_error *err);

/* Puts one item into the timeline. */
void feed_item(struct feed_file *f, struct timeline *tl, const struct pf_item *it, int64_t *events);
/* Before the timeline settles: shows it what is still running. `at_end`: the file has ended. */
void feed_show_open(struct feed_file *f, struct timeline *tl, bool at_end);
void feed_file_close(struct feed_file *f);

#endif
