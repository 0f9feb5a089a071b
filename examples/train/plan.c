// SPDX-License-Identifier: Apache-2.0
//
// Options, and the table of scenarios. A scenario only sets numbers: everything that it does wrong happens in the parts of the program that
// do that work anyway. `step` below is the modelled compute of a step; injected losses are fractions of it.

#include "examples/train/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/train/util.h"

#define MS 1000000.0

static double step_ns(const struct plan *p)
{
	return p->step_ms * MS;
}

/* Makes the loader the bottleneck: time that one worker may take for a batch, so that steps last `stretch` times their compute. */
static double batch_ns(const struct plan *p, double stretch)
{
	return step_ns(p) * (1 + (stretch - 1) * p->rate) * p->workers;
}

static void healthy(struct plan *p)
{
	(void)p;
}

static void storage(struct plan *p, double stretch)
{
	p->wait_leaf = "data.storage";
	/* one disk serves all ranks: that keeps them abreast, too */
	p->read_us = batch_ns(p, stretch) / (double)p->samples / p->workers / p->ranks / 1e3;
}

static void slow_storage(struct plan *p)
{
	storage(p, 1.45);
}

static void few_workers(struct plan *p)
{
	p->workers = 1;
	p->prefetch = 4;
	p->wait_leaf = "data.workers";
	p->decode_sleep_ns = (int64_t)batch_ns(p, 1.5);
}

static void slow_decode(struct plan *p)
{
	p->workers = 1;
	p->prefetch = 1;
	p->wait_leaf = "data.preprocess";
	p->decode_cpu_ns = (int64_t)batch_ns(p, 1.4);
}

static void remote_data(struct plan *p)
{
	p->remote = true;
	p->wait_leaf = "data.remote";
	p->remote_rate = (double)p->batch_bytes / (batch_ns(p, 1.5) / 1e9);
}

static void pageable(struct plan *p)
{
	p->pageable = true;
	if (p->batch_bytes < (4u << 20))
		p->batch_bytes = 4u << 20;
	p->pageable_gbs = (double)p->batch_bytes / (step_ns(p) * 0.45 * p->rate);
}

static void worker_churn(struct plan *p)
{
	p->epoch_steps = 8;
	p->wait_leaf = NULL;
	p->worker_start_ns = (int64_t)(step_ns(p) * p->epoch_steps * 0.6 * p->rate);
}

static void late_peer(struct plan *p)
{
	p->late_factor = 1 + 0.45 * p->rate;
}

static void slow_link(struct plan *p)
{
	double bytes;

	p->params = 1 << 20;
	bytes = (double)p->params * sizeof(float) * 2 * (p->ranks - 1) / (p->ranks > 0 ? p->ranks : 1);
	p->link_mbs = round(bytes / (step_ns(p) * (0.45 + 0.5 * p->rate) / 1e9) / 1e6);
	if (p->link_mbs < 1)
		p->link_mbs = 1;
}

static void packet_loss(struct plan *p)
{
	p->loss_burst_ns = 150000000;
	p->loss_every_ns = 600e6 / p->rate;
}

static void blocked_port(struct plan *p)
{
	p->blocked_step = p->steps / 3 > 4 ? p->steps / 3 : 4;
	p->syn_drop_ms = (int)(2500 * p->rate);
}

static void overflow(struct plan *p)
{
	p->overflow_every = (int)(4 / p->rate) > 1 ? (int)(4 / p->rate) : 2;
	p->growth_interval = p->overflow_every - 1;
}

static void checkpoint(struct plan *p)
{
	p->checkpoint_every = 5;
	p->checkpoint_ms = p->step_ms * p->checkpoint_every * 0.5 * p->rate;
}

static void item_sync(struct plan *p)
{
	p->micro_batches = 8;
	p->micro_host_ns = (int64_t)(step_ns(p) * 0.45 * p->rate / p->micro_batches);
}

/* A slow host rather than many kernels: 20 us a launch call keeps traces small. */
static void tiny_kernels(struct plan *p)
{
	p->launch_us = 20;
	p->tiny_kernels = (int)(step_ns(p) * 0.45 * p->rate / 17000);
}

static void alloc(struct plan *p)
{
	p->allocations = 3;
	p->alloc_us = (int)(step_ns(p) * 0.45 * p->rate / p->allocations * 0.4 / 1e3);
	p->free_us = (int)(step_ns(p) * 0.45 * p->rate / p->allocations * 0.6 / 1e3);
}

static void mixed(struct plan *p)
{
	storage(p, 1.3);
	packet_loss(p);
	p->loss_every_ns = 1200e6 / p->rate;
	p->overflow_every = 5;
	p->growth_interval = 4;
}

static const struct scenario {
	const char *name, *says;
	void (*set)(struct plan *p);
	const char *injected[3];
	bool needs_two;
} scenarios[] = {
	{ "healthy", "nothing is wrong", healthy, { 0 }, false },
	{ "slow-storage", "reads of sample files are slow", slow_storage, { "data.storage" }, false },
	{ "few-workers", "one worker waits for a decoder; more would help", few_workers, { "data.workers" }, false },
	{ "slow-decode", "decoding a batch takes more CPU than a step takes", slow_decode, { "data.preprocess" }, false },
	{ "remote-data", "samples come over a slow TCP connection", remote_data, { "data.remote" }, false },
	{ "pageable", "big batches are copied from pageable memory", pageable, { "data.pageable_copy" }, false },
	{ "worker-churn", "workers are restarted every epoch", worker_churn, { "data.worker_start" }, false },
	{ "late-peer", "the last rank computes longer than the others", late_peer, { "comm.late_peer" }, true },
	{ "slow-link", "all-reduce over a slow link", slow_link, { "comm.transfer" }, true },
	{ "packet-loss", "bursts of packet loss on the all-reduce connections", packet_loss, { "comm.retry" }, true },
	{ "blocked-port", "a new communicator's ports do not answer for a while", blocked_port, { "comm.retry" }, true },
	{ "overflow", "gradients overflow, steps are skipped", overflow, { "scaler.skip" }, false },
	{ "checkpoint", "checkpoints are written to a slow disk while the device waits", checkpoint, { "io.checkpoint" }, false },
	{ "item-sync", "loss.item() after each piece of the forward pass", item_sync, { "sync.bubble" }, false },
	{ "tiny-kernels", "hundreds of kernels shorter than their launch", tiny_kernels, { "host.launch" }, false },
	{ "alloc", "device memory is allocated and freed in each step", alloc, { "gpu.alloc" }, false },
	{ "mixed", "slow storage, packet loss and overflow together", mixed,
	  { "data.storage", "comm.retry", "scaler.skip" }, true },
};
enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static void usage(FILE *out)
{
	fputs("Usage: train [--scenario NAME] [--steps N] [--ranks R] [--truth FILE] [--step-ms MS] [--batch-kb KB]\n"
	      "             [--workers W] [--seed S] [--rate X]\n"
	      "\n"
	      "A training loop: loader processes, pinned copies, forward/backward/optimizer kernels, bucketed all-reduce, loss scaler.\n"
	      "Starts one process per rank, unless RANK and WORLD_SIZE are set (by a launcher). TRAIN_DIR = folder that ranks share.\n"
	      "\n"
	      "  --steps N     optimizer steps (60)              --ranks R     processes, one device each (2)\n"
	      "  --step-ms MS  compute of a step (60)            --batch-kb KB bytes of a batch (512)\n"
	      "  --workers W   loader processes per rank (2)     --rate X      strength of what goes wrong (1)\n"
	      "  --truth FILE  write there what was injected, as JSON\n"
	      "\n"
	      "Scenarios (mixed):\n", out);
	for (int i = 0; i < SCENARIOS; i++)
		fprintf(out, "  %-14s %s\n", scenarios[i].name, scenarios[i].says);
}

static _Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void wrong(const char *format, ...)
{
	va_list args;

	fputs("train: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; try --help\n", stderr);
	exit(2);
}

static double number(const char *option, const char *value, double min, double max)
{
	char *end;
	double n = strtod(value, &end);

	if (!*value || *end || !(n >= min && n <= max))
		wrong("%s takes a number from %g to %g, not '%s'", option, min, max, value);
	return n;
}

static int env_int(const char *name, int otherwise)
{
	const char *value = getenv(name);

	return value && *value ? atoi(value) : otherwise;
}

static void options(struct plan *p, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *option = argv[i], *equals = strchr(option, '='), *value;
		char name[32];

		if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
			usage(stdout);
			exit(0);
		}
		snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - option) : 31, option);
		value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
		if (strncmp(name, "--", 2))
			wrong("what is '%s'?", option);
		if (!value)
			wrong("%s needs a value", name);
		if (!strcmp(name, "--scenario"))
			p->scenario = value;
		else if (!strcmp(name, "--truth"))
			p->truth = value;
		else if (!strcmp(name, "--steps"))
			p->steps = (int)number(name, value, 1, 1e7);
		else if (!strcmp(name, "--ranks"))
			p->ranks = (int)number(name, value, 1, 64);
		else if (!strcmp(name, "--workers"))
			p->workers = (int)number(name, value, 1, 64);
		else if (!strcmp(name, "--seed"))
			p->seed = (unsigned int)number(name, value, 0, 4e9);
		else if (!strcmp(name, "--step-ms"))
			p->step_ms = number(name, value, 1, 1e5);
		else if (!strcmp(name, "--rate"))
			p->rate = number(name, value, 0.01, 100);
		else if (!strcmp(name, "--batch-kb"))
			p->batch_bytes = (size_t)number(name, value, 1, 1 << 20) << 10;
		else
			wrong("unknown option %s", name);
	}
}

void plan_make(struct plan *p, int argc, char **argv)
{
	const struct scenario *found = NULL;

	memset(p, 0, sizeof(*p));
	p->scenario = "mixed";
	p->steps = 60;
	p->ranks = 2;
	p->workers = 2;
	p->prefetch = 2;
	p->samples = 8;
	p->seed = 1;
	p->step_ms = 60;
	p->rate = 1;
	p->batch_bytes = 512 << 10;
	p->params = 1 << 18;
	p->late_factor = 1;
	p->blocked_step = -1;
	p->growth_interval = 2000;
	options(p, argc, argv);

	p->launched = getenv("RANK") && getenv("WORLD_SIZE");
	if (p->launched)
		p->ranks = env_int("WORLD_SIZE", 1);
	p->world = p->ranks;
	p->rank = p->launched ? env_int("RANK", 0) : 0;
	p->local_rank = env_int("LOCAL_RANK", p->rank);
	p->dir = getenv("TRAIN_DIR");

	for (int i = 0; i < SCENARIOS; i++)
		if (!strcmp(scenarios[i].name, p->scenario))
			found = &scenarios[i];
	if (!found)
		wrong("there is no scenario '%s'", p->scenario);
	if (found->needs_two && p->ranks < 2)
		wrong("scenario %s is about communication: it needs --ranks 2 or more", p->scenario);
	memcpy(p->injected, found->injected, sizeof(found->injected));
	found->set(p);
}

static void set(const char *name, double value)
{
	char *number;

	if (value <= 0)
		return;
	number = text("%.6g", value);
	setenv(name, number, 0);
	free(number);
}

void plan_environment(const struct plan *p)
{
	set("SIMGPU_NCCL_PACING_MBS", p->link_mbs);
	set("SIMGPU_PAGEABLE_GBS", p->pageable_gbs);
	set("SIMGPU_ALLOC_US", p->alloc_us);
	set("SIMGPU_FREE_US", p->free_us);
	set("SIMGPU_LAUNCH_US", p->launch_us);
	if (p->read_us > 0 || p->checkpoint_ms > 0) {
		set("SLOWDISK_READ_US", p->read_us);
		set("SLOWDISK_FSYNC_US", p->checkpoint_ms * 1e3);
		setenv("SLOWDISK_DIR", p->dir, 0);
	}
}

bool plan_injects(const struct plan *p, const char *leaf)
{
	for (int i = 0; p->injected[i]; i++)
		if (!strcmp(p->injected[i], leaf))
			return true;
	return false;
}
