/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling of TCP_INFO. Connections get onto a fixed list when they first move bytes; the drain walks it. A closing thread takes the
 * last sample itself and leaves it in a small queue.
 */
#include "shim/tcp.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "shim/pulse.h"
#include "shim/strings.h"
#include "shim/sys.h"
#include "shim/target.h"

#pragma GCC poison malloc calloc realloc free printf fprintf

#define MOST 1024		/* connections watched at once */
#define WORDS 64		/* last samples waiting for the drain; a power of two */
#define TCP_INFO_NR 11		/* netinet/tcp.h and linux/tcp.h cannot be included together */
#define STATE_SYN_SENT 2
#define STATE_LISTEN 10

/* The kernel's struct tcp_info, which only grows; old headers stop early. What an old kernel does not fill stays 0. */
struct info {
	uint8_t state, ca, rto, probes, backoff, options, wscale, flags;
	uint32_t rto_us, ato, snd_mss, rcv_mss;
	uint32_t unacked, sacked, lost, retrans, fackets;
	uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
	uint32_t pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
	uint32_t rcv_rtt, rcv_space, total_retrans;
	uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
	uint32_t segs_out, segs_in, notsent, min_rtt, data_segs_in, data_segs_out;
	uint64_t delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
	uint32_t delivered, delivered_ce;
	uint64_t bytes_sent, bytes_retrans;
	uint32_t dsack_dups, reord_seen, rcv_ooopack, snd_wnd;
};

_Static_assert(offsetof(struct info, total_retrans) == 100, "tcp_info");
_Static_assert(offsetof(struct info, bytes_received) == 128, "tcp_info");
_Static_assert(offsetof(struct info, min_rtt) == 148, "tcp_info");
_Static_assert(offsetof(struct info, bytes_retrans) == 208, "tcp_info");
_Static_assert(offsetof(struct info, reord_seen) == 220, "tcp_info");
_Static_assert(offsetof(struct info, snd_wnd) == 228, "tcp_info");

struct sample {
	uint64_t ts_ns;
	uint64_t target;
	uint8_t role;
	struct info info;
};

static _Atomic uint64_t list[MOST];	/* 0 free, else generation << 32 | descriptor + 1 */
static struct sample last[MOST];	/* drain's: what was written last; info.state 0 = nothing yet */
static atomic_uint list_high;

/* Last samples: a bounded queue of many producers; a cell's turn says whose it is. */
static struct { _Atomic uint32_t turn; struct sample s; } words[WORDS];
static atomic_uint words_head;
static uint32_t words_tail;

void tcp_used(int fd, struct fd_entry *e)
{
	uint8_t fresh = 0;
	unsigned i;

	if (!atomic_load_explicit(&e->active, memory_order_relaxed)) {
		atomic_store_explicit(&e->active, 1, memory_order_relaxed);
		if (atomic_load_explicit(&pulse, memory_order_relaxed) == PULSE_PARKED)
			pulse_rouse(CALL_send);		/* a short send pushes no event */
	}
	if (atomic_load_explicit(&e->listed, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong_explicit(&e->listed, &fresh, 1, memory_order_relaxed, memory_order_relaxed))
		return;
	for (i = 0; i < MOST; i++) {
		uint64_t none = 0, mine = (uint64_t)fd_generation(e) << 32 | (uint32_t)(fd + 1);
		unsigned high = atomic_load_explicit(&list_high, memory_order_relaxed);

		if (!atomic_compare_exchange_strong_explicit(&list[i], &none, mine, memory_order_relaxed, memory_order_relaxed))
			continue;
		while (high <= i && !atomic_compare_exchange_weak_explicit(&list_high, &high, i + 1, memory_order_relaxed,
									   memory_order_relaxed))
			;
		return;
	}
}

static bool take(int fd, struct fd_entry *e, struct sample *s)
{
	socklen_t len = sizeof(s->info);

	memset(s, 0, sizeof(*s));
	if (sys6(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO_NR, SYS_L(&s->info), SYS_L(&len), 0) != 0)
		return false;
	s->ts_ns = now_ns();
	s->role = atomic_load_explicit(&e->role, memory_order_relaxed);
	s->target = target_of_fd(fd);
	return true;
}

void tcp_last_words(int fd)
{
	struct fd_entry *e = fdtab_entry(fd);
	struct sample s;
	unsigned at;

	if (!e || !atomic_load_explicit(&e->listed, memory_order_relaxed) || !take(fd, e, &s))
		return;
	at = atomic_load_explicit(&words_head, memory_order_relaxed);
	for (;;) {
		/* acquire: pairs with the drain's release when it gives the cell back */
		uint32_t turn = atomic_load_explicit(&words[at % WORDS].turn, memory_order_acquire);

		if (turn != at / WORDS * 2)
			return;		/* full: the drain's own samples must do */
		if (atomic_compare_exchange_weak_explicit(&words_head, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
			break;
	}
	words[at % WORDS].s = s;
	/* release: pairs with the drain's acquire */
	atomic_store_explicit(&words[at % WORDS].turn, at / WORDS * 2 + 1, memory_order_release);
}

static uint32_t role_word(uint8_t role)
{
	static const char *const names[] = { [ROLE_UNKNOWN] = "other", [ROLE_OTHER] = "other", [ROLE_NCCL] = "nccl",
					     [ROLE_NCCL_BOOTSTRAP] = "nccl-bootstrap" };
	const char *s = names[role <= ROLE_NCCL_BOOTSTRAP ? role : ROLE_OTHER];

	return strings_intern(PF_STRINGS, s, strlen(s));
}

static void write_sample(struct pf_writer *w, struct pf_seq *seq, const struct sample *s)
{
	const struct info *t = &s->info;
	uint32_t role = role_word(s->role), target = strings_target_iid(s->target);
	const struct pf_arg args[] = {
		{ KEY_target, PF_ARG_STR_IID, { .iid = target } },
		{ KEY_state, PF_ARG_UINT, { t->state } },
		{ KEY_ca, PF_ARG_UINT, { t->ca } },
		{ KEY_rto, PF_ARG_UINT, { t->rto } },
		{ KEY_backoff, PF_ARG_UINT, { t->backoff } },
		{ KEY_retrans, PF_ARG_UINT, { t->total_retrans } },
		{ KEY_dsack, PF_ARG_UINT, { t->dsack_dups } },
		{ KEY_acked, PF_ARG_UINT, { t->bytes_acked } },
		{ KEY_received, PF_ARG_UINT, { t->bytes_received } },
		{ KEY_unacked, PF_ARG_UINT, { t->unacked } },
		{ KEY_notsent, PF_ARG_UINT, { t->notsent } },
		{ KEY_last_ack_ms, PF_ARG_UINT, { t->last_ack_recv } },
		{ KEY_last_recv_ms, PF_ARG_UINT, { t->last_data_recv } },
		{ KEY_rtt_us, PF_ARG_UINT, { t->rtt } },
		{ KEY_min_rtt_us, PF_ARG_UINT, { t->min_rtt == UINT32_MAX ? 0 : t->min_rtt } },
		{ KEY_rwnd_ms, PF_ARG_UINT, { t->rwnd_limited / 1000 } },
		{ KEY_snd_wnd, PF_ARG_UINT, { t->snd_wnd } },
		{ KEY_role, PF_ARG_STR_IID, { .iid = role } },
	};
	unsigned skip = target ? 0 : 1;
	struct pf_event ev = {
		.ts_ns = s->ts_ns, .name_iid = strings_intern(PF_NAMES, "tcp", 3),
		.args = args + skip, .nargs = sizeof(args) / sizeof(args[0]) - skip,
	};

	pf_instant(w, seq, strings_lookup(), &ev);
}

/* Anything but the ages, which grow by themselves. */
static bool differs(const struct info *a, const struct info *b)
{
	return a->state != b->state || a->ca != b->ca || a->rto != b->rto || a->backoff != b->backoff || a->probes != b->probes ||
	       a->total_retrans != b->total_retrans || a->dsack_dups != b->dsack_dups || a->bytes_acked != b->bytes_acked ||
	       a->bytes_received != b->bytes_received || a->unacked != b->unacked || a->notsent != b->notsent ||
	       a->rwnd_limited / 1000 != b->rwnd_limited / 1000 || a->snd_wnd != b->snd_wnd;
}

static bool outstanding(const struct info *t)
{
	return t->state == STATE_SYN_SENT || t->unacked || t->notsent;
}

/* One place of the list. True while it wants fast sampling. */
static bool sample_place(struct pf_writer *w, struct pf_seq *seq, unsigned i, bool *activity)
{
	uint64_t v = atomic_load_explicit(&list[i], memory_order_relaxed);
	int fd = (int)(uint32_t)v - 1;
	struct fd_entry *e;
	struct sample s;

	if (!v)
		return false;
	e = fdtab_entry(fd);
	if (fd_generation(e) != v >> 32) {
		last[i].info.state = 0;
		atomic_store_explicit(&list[i], 0, memory_order_relaxed);
		return false;
	}
	if (!atomic_exchange_explicit(&e->active, 0, memory_order_relaxed) && last[i].info.state && !outstanding(&last[i].info))
		return false;
	*activity = true;
	if (!take(fd, e, &s) || fd_generation(e) != v >> 32 || s.info.state == STATE_LISTEN)
		return false;
	if (differs(&s.info, &last[i].info)) {
		last[i] = s;
		write_sample(w, seq, &s);
	}
	return outstanding(&s.info);
}

static void write_last_words(struct pf_writer *w, struct pf_seq *seq)
{
	for (;;) {
		uint32_t turn = words_tail / WORDS * 2 + 1;

		/* acquire: pairs with the release in tcp_last_words */
		if (atomic_load_explicit(&words[words_tail % WORDS].turn, memory_order_acquire) != turn)
			return;
		write_sample(w, seq, &words[words_tail % WORDS].s);
		/* release: pairs with the acquire there */
		atomic_store_explicit(&words[words_tail % WORDS].turn, turn + 1, memory_order_release);
		words_tail++;
	}
}

bool tcp_sample(struct pf_writer *w, struct pf_seq *seq, bool *activity)
{
	unsigned i, n = atomic_load_explicit(&list_high, memory_order_relaxed);
	bool fast = false;

	write_last_words(w, seq);
	for (i = 0; i < n; i++)
		fast |= sample_place(w, seq, i, activity);
	return fast;
}

void tcp_fork_child(void)
{
	unsigned i, n = atomic_load_explicit(&list_high, memory_order_relaxed);

	for (i = 0; i < n; i++) {
		uint64_t v = atomic_load_explicit(&list[i], memory_order_relaxed);
		struct fd_entry *e = v ? fdtab_entry((int)(uint32_t)v - 1) : NULL;

		if (e)
			atomic_store_explicit(&e->listed, 0, memory_order_relaxed);
		atomic_store_explicit(&list[i], 0, memory_order_relaxed);
		last[i].info.state = 0;
	}
	atomic_store_explicit(&list_high, 0, memory_order_relaxed);
	for (i = 0; i < WORDS; i++)
		atomic_store_explicit(&words[i].turn, 0, memory_order_relaxed);
	atomic_store_explicit(&words_head, 0, memory_order_relaxed);
	words_tail = 0;
}
