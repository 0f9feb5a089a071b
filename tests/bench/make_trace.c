/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a long trace of a made-up training process, to measure readers with: make_trace FILE SLICES [bare].
 * bare: begin and end only, no targets, bytes or arrows: what the format itself costs.
 * One thread launches kernels back to back (a launch slice and the kernel it starts, joined by a flow id), waits for a batch of a worker every 100 kernels;
 * one worker thread reads files. Everything goes through trace/writer.h, as the shim's drain does.
 */
#include "trace/writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd;
static uint8_t block[1 << 20];
static struct pf_seq seq_process, seq_main, seq_worker, seq_gpu;
static uint64_t slices;
static int bare;

static int write_out(struct pf_writer *w)
{
	if (write(fd, w->buf, w->len) != (ssize_t)w->len)
		return -1;
	w->len = 0;
	return 0;
}

static const char *const names[] = { "?", "cudaLaunchKernel", "read", "pread", "write" };
static const char *const keys[] = { "?", "target", "bytes" };
static const char *const strings[] = { "?", "pipe:[100]", "pipe:[101]", "/data/train/shard-000.bin" };

enum { NAME_LAUNCH = 1, NAME_READ, NAME_PREAD, NAME_WRITE, NAME_KERNELS = 5, KERNELS = 200 };
enum { KEY_TARGET = 1, KEY_BYTES };
enum { PIPE_RESULT = 1, PIPE_INDEX, SHARD };

static const char *look_up(void *ctx, enum pf_table table, uint32_t iid, size_t *len)
{
	static char kernel[128];
	const char *s;

	if (table == PF_NAMES && iid >= NAME_KERNELS) {
		snprintf(kernel, sizeof(kernel), "_ZN7cutlass13device_kernelI%03uEvT_4gemm_bf16_128x256_tn_align8_stage3", iid);
		s = kernel;
	} else {
		s = table == PF_NAMES ? names[iid] : table == PF_KEYS ? keys[iid] : strings[iid];
	}
	*len = strlen(s);
	return s;
}

static const struct pf_strings texts = { look_up, NULL };

static void slice(struct pf_writer *w, struct pf_seq *s, uint32_t name, uint64_t start, uint64_t end, uint64_t flow, uint64_t end_flow,
	uint32_t target, int64_t bytes)
{
	struct pf_arg args[2];
	unsigned n = 0;

	if (bare)
		flow = end_flow = target = 0;
	if (target) {
		args[n++] = (struct pf_arg){ .key_iid = KEY_TARGET, .type = PF_ARG_STR_IID, .v.iid = target };
		args[n++] = (struct pf_arg){ .key_iid = KEY_BYTES, .type = PF_ARG_INT, .v.i = bytes };
	}
	pf_begin(w, s, &texts, &(struct pf_event){ .ts_ns = start, .name_iid = name, .flow_id = flow, .end_flow_id = end_flow, .args = args, .nargs = n });
	pf_end(w, s, &texts, &(struct pf_event){ .ts_ns = end });
	slices++;
}

int main(int argc, char **argv)
{
	struct pf_writer w = { .buf = block, .cap = sizeof(block), .full = write_out };
	uint64_t want = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	uint64_t t = 1000000000, gpu_free = t, flow = 1;
	const char *argvs[] = { "python3", "train.py" };

	bare = argc > 3 && !strcmp(argv[3], "bare");
	fd = argc > 1 ? open(argv[1], O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600) : -1;
	if (fd < 0) {
		fprintf(stderr, "usage: make_trace FILE SLICES [bare]\n");
		return 2;
	}
	seq_process = (struct pf_seq){ .id = 1, .track_uuid = 0x100 };
	seq_main = (struct pf_seq){ .id = 2, .track_uuid = 0x200 };
	seq_worker = (struct pf_seq){ .id = 3, .track_uuid = 0x300 };
	seq_gpu = (struct pf_seq){ .id = 0x1000, .track_uuid = 0x500 };
	pf_trace_uuid(&w, 1, 2);
	pf_clocks(&w, 1, t, t + 1700000000000000000, t);
	pf_process_track(&w, 1, &(struct pf_process){ .uuid = 0x100, .pid = 100, .start_ns = t, .name = "python3", .argv = argvs, .argc = 2 });
	pf_thread_track(&w, 1, 0x200, 100, 100, "python3");
	pf_thread_track(&w, 1, 0x300, 100, 101, "pt_data_worker");
	pf_track(&w, 1, &(struct pf_track){ .uuid = 0x400, .parent_uuid = 0x100, .name = "GPU 0" });
	pf_track(&w, 1, &(struct pf_track){ .uuid = 0x500, .parent_uuid = 0x400, .name = "stream 7" });
	pf_attr_int(&w, 1, "whyidle.schema", 1);
	pf_attr_int(&w, 1, "whyidle.pid", 100);
	pf_attr_int(&w, 1, "whyidle.rank", 0);
	pf_attr_str(&w, 1, "whyidle.host", "bench", 5);
	pf_attr_str(&w, 1, "whyidle.gpu", "cupti", 5);
	pf_seq_begin(&w, &seq_main, t);
	pf_seq_begin(&w, &seq_worker, t);
	pf_seq_begin(&w, &seq_gpu, t);

	for (uint64_t snapshot = t, step = 0; slices < want; step++) {
		uint64_t wait = t;

		/* every tenth batch is late by 3 ms */
		t += step % 10 == 9 ? 3000000 : 30000;
		slice(&w, &seq_worker, NAME_PREAD, wait + 5000, t - 5000, 0, 0, SHARD, 1 << 20);
		slice(&w, &seq_worker, NAME_WRITE, t - 4000, t - 1000, 0, 0, PIPE_RESULT, 350);
		slice(&w, &seq_main, NAME_READ, wait, t, 0, 0, PIPE_RESULT, 350);
		slice(&w, &seq_main, NAME_WRITE, t + 1000, t + 3000, 0, 0, PIPE_INDEX, 20);
		t += 5000;
		for (int k = 0; k < 100; k++, flow++) {
			uint64_t start = t + 6000 > gpu_free ? t + 6000 : gpu_free + 500;

			slice(&w, &seq_main, NAME_LAUNCH, t, t + 4000, flow, 0, 0, 0);
			slice(&w, &seq_gpu, NAME_KERNELS + (uint32_t)(k * 7 % KERNELS), start, start + 9000 + (uint64_t)k * 20, 0, flow, 0, 0);
			gpu_free = start + 9000 + (uint64_t)k * 20;
			t += 7000;
		}
		if (t > gpu_free)
			gpu_free = t;
		if (t - snapshot > 1000000000) {
			snapshot = t;
			pf_clocks(&w, 1, t, t + 1700000000000000000, t);
		}
		if (gpu_free > t + 300000)
			t = gpu_free - 300000;
	}
	pf_attr_str(&w, 1, "whyidle.end", "exit", 4);
	write_out(&w);
	printf("%llu\n", (unsigned long long)slices);
	return 0;
}
