/* SPDX-License-Identifier: Apache-2.0
 *
 * What to run: the options, and what the chosen scenario makes of the job and of the machine.
 */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan {
	/* options */
	const char *scenario, *truth, *dir;
	int steps, ranks, workers;
	unsigned int seed;
	double step_ms, rate;
	size_t batch_bytes;

	/* the process */
	bool launched;			/* RANK is set: this process is one rank */
	int rank, world, local_rank;

	/* the job */
	int prefetch;			/* batches asked of each worker ahead */
	size_t samples;			/* per batch */
	size_t params;			/* floats */
	int epoch_steps;		/* 0 = one long epoch; else workers are restarted after so many steps */
	bool pageable;			/* batches go to the device from where the worker put them */
	bool remote;			/* samples come from a server */
	int micro_batches;		/* > 0: forward in so many pieces, each ends with loss.item() */
	int tiny_kernels;		/* small kernels per forward */
	int allocations;		/* cudaMalloc + cudaFree pairs per step */
	int checkpoint_every;		/* steps, 0 = never */
	int growth_interval;

	/* what goes wrong; ns where not said otherwise */
	const char *injected[4];	/* leaves, NULL after the last */
	const char *wait_leaf;		/* why a batch is late, NULL = no reason was injected */
	double read_us;			/* the disk's time for one sample */
	double checkpoint_ms;		/* fsync of a checkpoint */
	int64_t decode_cpu_ns, decode_sleep_ns, worker_start_ns, micro_host_ns;
	double remote_rate;		/* bytes/s and connection */
	double late_factor;		/* the last rank's kernels last so much longer */
	double link_mbs;		/* NCCL sockets, MB/s */
	double loss_every_ns;		/* bursts of packet loss */
	int64_t loss_burst_ns;
	int blocked_step;		/* a second communicator is made before this step, -1 = never */
	int syn_drop_ms;
	int overflow_every;		/* every so many steps gradients overflow */
	double pageable_gbs;
	int alloc_us, free_us, launch_us;
	bool needs_two;			/* about communication */
};

/* Reads options and environment and fills all of *p. Ends the process on a wrong one (2) and after --help (0). */
void plan_make(struct plan *p, int argc, char **argv);

/* Sets up the machine that the scenario describes, through the environment of simgpu and slowdisk (what is set already stays). To be called
 * before the first CUDA call. */
void plan_environment(const struct plan *p);

bool plan_injects(const struct plan *p, const char *leaf);

#endif
