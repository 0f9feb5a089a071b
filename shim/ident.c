/* SPDX-License-Identifier: Apache-2.0
 *
 * Identity of the process. System calls only, no allocation: also runs in the child of a fork of a threaded process.
 */
#include "shim/ident.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "shim/config.h"
#include "shim/drain.h"
#include "shim/sys.h"
#include "shim/text.h"

#ifndef WHYIDLE_VERSION
#define WHYIDLE_VERSION "unknown"
#endif

struct ident ident;

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

static uint64_t finish(uint64_t h)
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdu;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53u;
	h ^= h >> 33;
	return h ? h : 1;
}

/* The file's beginning, terminated; its length, 0 when it cannot be read. */
static size_t slurp(const char *path, char *buf, size_t size)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t len = 0;
	long n;

	if (fd >= 0) {
		while (len < size - 1 && (n = sys_read(fd, buf + len, size - 1 - len)) > 0)
			len += (size_t)n;
		sys_close(fd);
	}
	buf[len] = 0;
	return len;
}

static uint64_t parse_uint(const char **s)
{
	uint64_t v = 0;

	while (**s >= '0' && **s <= '9')
		v = v * 10 + (uint64_t)(*(*s)++ - '0');
	return v;
}

/* Field 22 of /proc/self/stat, in clock ticks since boot; fields are counted after the last ')', the name may hold anything. */
static uint64_t start_ticks(void)
{
	char stat[1024];
	const char *s;
	int field;

	if (!slurp("/proc/self/stat", stat, sizeof(stat)))
		return 0;
	s = strrchr(stat, ')');
	for (field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	if (!s)
		return 0;
	s++;
	return parse_uint(&s);
}

static uint64_t start_monotonic_ns(void)
{
	uint64_t ticks = start_ticks(), boot = clock_ns(CLOCK_BOOTTIME), mono = now_ns(), at;
	long hz = sysconf(_SC_CLK_TCK);

	if (!ticks || hz <= 0)
		return 0;
	at = ticks * (1000000000u / (uint64_t)hz);
	return at > boot - mono ? at - (boot - mono) : 0;
}

static void read_host(void)
{
	const char *given = getenv("WHYIDLE_HOST");
	struct text_out o = text_out(ident.host, sizeof(ident.host));
	struct utsname u;
	char *p;

	if (given && *given) {
		text_str(&o, given);
	} else {
		u.nodename[0] = 0;
		sys6(SYS_uname, SYS_L(&u), 0, 0, 0, 0, 0);
		text_str(&o, u.nodename[0] ? u.nodename : "localhost");
	}
	for (p = ident.host; *p; p++)
		if (*p == '/' || (unsigned char)*p < ' ')
			*p = '_';
}

/* The first of these variables that holds a number, else -1. Names end with NULL. */
static int32_t first_number(const char *const *names)
{
	for (; *names; names++) {
		const char *s = getenv(*names);
		uint64_t v;

		if (!s || *s < '0' || *s > '9')
			continue;
		v = parse_uint(&s);
		if (!*s && v < 0x7fffffff)
			return (int32_t)v;
	}
	return -1;
}

static void read_rank(void)
{
	static const char *const rank[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL };
	static const char *const local[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
					     "SLURM_LOCALID", NULL };
	static const char *const world[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL };

	ident.rank = first_number(rank);
	ident.local_rank = first_number(local);
	ident.world_size = first_number(world);
}

void ident_refresh(void)
{
	uint64_t ticks = start_ticks(), h = 0xcbf29ce484222325u;
	size_t len = slurp("/proc/sys/kernel/random/boot_id", ident.boot, sizeof(ident.boot));

	if (len && ident.boot[len - 1] == '\n')
		ident.boot[len - 1] = 0;
	read_host();
	read_rank();
	ident.pid = sys_pid();
	ident.ppid = (int32_t)sys6(SYS_getppid, 0, 0, 0, 0, 0, 0);
	ident.start_ns = start_monotonic_ns();
	h = mix(h, ident.host, strlen(ident.host));
	h = mix(h, ident.boot, strlen(ident.boot));
	h = mix(h, &ident.pid, sizeof(ident.pid));
	h = mix(h, &ticks, sizeof(ticks));
	ident.uuid = finish(h);
}

uint64_t drain_process_uuid(void)
{
	return ident.uuid;
}

uint64_t drain_uuid(const char *kind, uint64_t a, uint64_t b)
{
	uint64_t h = mix(ident.uuid, kind, strlen(kind));

	h = mix(h, &a, sizeof(a));
	return finish(mix(h, &b, sizeof(b)));
}

int ident_write(struct pf_writer *w)
{
	static char cmdline[16384];	/* drain thread only; too large for a small stack */
	const char *argv[256], *labels[2];
	char comm[64], rank[32], host[160];
	unsigned argc = 0, nlabels = 0;
	struct text_out o;
	size_t len = slurp("/proc/self/cmdline", cmdline, sizeof(cmdline)), at;

	for (at = 0; at < len && argc < 256; at += strlen(cmdline + at) + 1)
		argv[argc++] = cmdline + at;
	len = slurp("/proc/self/comm", comm, sizeof(comm));
	if (len && comm[len - 1] == '\n')
		comm[len - 1] = 0;
	if (ident.rank >= 0) {
		o = text_out(rank, sizeof(rank));
		text_str(&o, "rank ");
		text_uint(&o, (uint64_t)ident.rank);
		labels[nlabels++] = rank;
	}
	o = text_out(host, sizeof(host));
	text_str(&o, "host ");
	text_str(&o, ident.host);
	labels[nlabels++] = host;
	return pf_process_track(w, DRAIN_SEQ_PROCESS, &(struct pf_process){
		.uuid = ident.uuid, .pid = ident.pid, .start_ns = ident.start_ns, .name = comm,
		.argv = argv, .argc = argc, .labels = labels, .nlabels = nlabels,
	});
}

/* CPUs this process may use: its affinity, and the group's quota (cgroup 2, as mounted in containers). */
static int64_t allowed_cpus(void)
{
	uint64_t mask[128] = { 0 };	/* 8192 CPUs */
	long n = sys6(SYS_sched_getaffinity, 0, sizeof(mask), SYS_L(mask), 0, 0, 0);
	int64_t cpus = 0;
	char quota[64];
	const char *s = quota;
	uint64_t max, period;
	long i;

	for (i = 0; i < n / 8; i++)
		cpus += __builtin_popcountll(mask[i]);
	if (slurp("/sys/fs/cgroup/cpu.max", quota, sizeof(quota)) && *s >= '0' && *s <= '9') {
		max = parse_uint(&s);
		s += *s == ' ';
		period = parse_uint(&s);
		if (period && (int64_t)((max + period - 1) / period) < cpus)
			cpus = (int64_t)((max + period - 1) / period);
	}
	return cpus > 0 ? cpus : 1;
}

void ident_attributes(void)
{
	drain_attr_int("whyidle.schema", 1);
	drain_attr_str("whyidle.version", WHYIDLE_VERSION);
	drain_attr_str("whyidle.host", ident.host);
	drain_attr_str("whyidle.boot", ident.boot);
	drain_attr_int("whyidle.pid", ident.pid);
	drain_attr_int("whyidle.ppid", ident.ppid);
	drain_attr_int("whyidle.rank", ident.rank);
	drain_attr_int("whyidle.local_rank", ident.local_rank);
	drain_attr_int("whyidle.world_size", ident.world_size);
	drain_attr_int("whyidle.cpus", allowed_cpus());
	drain_attr_int("whyidle.threshold_ns", (int64_t)config.threshold_ns);
}
