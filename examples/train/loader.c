// SPDX-License-Identifier: Apache-2.0

#include "examples/train/loader.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/train/dataset.h"
#include "examples/train/decoder.h"
#include "examples/train/plan.h"
#include "examples/train/util.h"

/* Pipe messages as Python's multiprocessing writes them: a length of 4 bytes, then the body, in one write. */
struct body {
	uint64_t batch;
	uint32_t slot, hash;
};
struct message {
	uint32_t len;
	struct body body;
} __attribute__((packed));

static void put_message(int fd, struct body body)
{
	struct message m = { htonl(sizeof(body)), body };

	if (write_all(fd, &m, sizeof(m)) < 0 && errno != EPIPE)
		die("a pipe of the loader broke: %s", strerror(errno));
}

/* 1 got one, 0 the other side is gone. Waits as Queue.get(timeout=5) does; the consumer then looks whether its workers still live. */
static int get_message(int fd, struct body *body, const struct loader *consumer)
{
	uint32_t len;

	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };

		if (poll(&p, 1, 5000) > 0)
			break;
		for (int i = 0; consumer && i < consumer->workers; i++)
			if (waitpid(consumer->pids[i], NULL, WNOHANG))
				die("loader worker %d is gone", (int)consumer->pids[i]);
	}
	if (read_all(fd, &len, sizeof(len)) <= 0 || ntohl(len) != sizeof(*body))
		return 0;
	return read_all(fd, body, sizeof(*body)) > 0;
}

/* Bytes to numbers: cheap, but every byte is touched. */
static uint32_t decode(uint8_t *bytes, size_t n)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 0x55;
		hash = hash * 31 + bytes[i];
	}
	return hash;
}

static _Noreturn void worker(const struct loader *l, int id, int index_fd)
{
	const struct plan *p = l->plan;
	size_t sample = p->batch_bytes / p->samples;
	struct decoder *decoder;
	struct body body;
	int server;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "pt_data_worker");
	for (int i = 0; i < id; i++)
		close(l->index_fds[i]);
	close(l->result_read);
	sleep_ns(p->worker_start_ns);	/* what imports take where workers are not plain copies */
	server = l->port ? dataset_connect(l->port) : -1;
	decoder = p->decode_sleep_ns ? decoder_open(p) : NULL;
	while (get_message(index_fd, &body, NULL)) {
		uint8_t *bytes = l->memory + body.slot * p->batch_bytes;

		for (size_t i = 0; i < p->samples; i++)
			dataset_read(p, server, (body.batch * (uint64_t)p->world + (uint64_t)p->rank) * p->samples + i, bytes + i * sample);
		body.hash = decode(bytes, p->batch_bytes);
		burn_ns(p->decode_cpu_ns, bytes, p->batch_bytes);
		if (decoder)
			decoder_wait(decoder, body.batch);
		put_message(l->result_write, body);
	}
	_exit(0);
}

void loader_open(struct loader *l, const struct plan *plan, int port)
{
	int fds[2];

	memset(l, 0, sizeof(*l));
	l->plan = plan;
	l->port = port;
	l->workers = plan->workers;
	l->slots = plan->workers * plan->prefetch + 1;
	l->pids = calloc((size_t)l->workers, sizeof(*l->pids));
	l->index_fds = calloc((size_t)l->workers, sizeof(*l->index_fds));
	l->slot_of = calloc((size_t)l->slots, sizeof(*l->slot_of));
	l->memory = mmap(NULL, (size_t)l->slots * plan->batch_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!l->pids || !l->index_fds || !l->slot_of || l->memory == MAP_FAILED)
		die("no memory for %d batches", l->slots);
	if (pipe2(fds, O_CLOEXEC))
		die("cannot make a pipe: %s", strerror(errno));
	l->result_read = fds[0];
	l->result_write = fds[1];
}

/* Asks the worker whose turn it is for the next batch, to be put into `slot`. */
static void ask(struct loader *l, int slot)
{
	uint64_t batch = l->asked++;

	l->slot_of[batch % (uint64_t)l->slots] = -1;
	put_message(l->index_fds[batch % (uint64_t)l->workers], (struct body){ batch, (uint32_t)slot, 0 });
}

void loader_start(struct loader *l, uint64_t end)
{
	for (int i = 0; i < l->workers; i++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC))
			die("cannot make a pipe: %s", strerror(errno));
		l->index_fds[i] = fds[1];
		fflush(stdout);
		l->pids[i] = fork();
		if (l->pids[i] < 0)
			die("cannot fork: %s", strerror(errno));
		if (l->pids[i] == 0) {
			close(fds[1]);
			worker(l, i, fds[0]);
		}
		close(fds[0]);
	}
	l->end = end;
	l->asked = l->next;
	l->spare = l->slots - 1;
	for (int slot = 0; slot < l->slots - 1 && l->asked < l->end; slot++)
		ask(l, slot);
}

void loader_stop(struct loader *l)
{
	for (int i = 0; i < l->workers; i++)
		close(l->index_fds[i]);
	for (int i = 0; i < l->workers; i++)
		while (waitpid(l->pids[i], NULL, 0) < 0 && errno == EINTR)
			;
}

void loader_close(struct loader *l)
{
	munmap(l->memory, (size_t)l->slots * l->plan->batch_bytes);
	close(l->result_read);
	close(l->result_write);
	free(l->pids);
	free(l->index_fds);
	free(l->slot_of);
}

const uint8_t *loader_next(struct loader *l, int64_t waited_ns[2])
{
	int *slot = &l->slot_of[l->next % (uint64_t)l->slots], got;

	waited_ns[0] = waited_ns[1] = now_ns();
	while (*slot < 0) {
		struct body body;

		if (!get_message(l->result_read, &body, l))
			die("the loader's workers are gone");
		l->slot_of[body.batch % (uint64_t)l->slots] = (int)body.slot;
		waited_ns[1] = now_ns();
	}
	got = *slot;
	l->next++;
	if (l->asked < l->end)
		ask(l, l->spare);
	l->spare = got;
	return l->memory + (size_t)got * l->plan->batch_bytes;
}
