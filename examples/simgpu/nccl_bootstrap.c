/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks find each other: a root listens at the address in the unique id, every rank tells it where it listens, the
 * root connects back to each rank and names its neighbour, and the ranks close a ring over which all else is agreed.
 */
#include "examples/simgpu/nccl_internal.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/prctl.h>

enum { MAX_RANKS = 4096 };

struct id_content {
	uint64_t magic;
	struct sockaddr_in root;
	uint32_t fixed_address;		/* NCCL_COMM_ID: rank 0 has to open the root */
};

struct hello {
	int32_t rank, nranks;
	struct sockaddr_in for_root, for_ring;
};

struct root {
	int listener;
	uint64_t magic;
};

static int root_collect(struct root *root, struct hello **all, int *nranks)
{
	int have = 0, rc = 0;

	*nranks = 1;
	while (!rc && have < *nranks) {
		struct hello hello;
		int fd;

		rc = socket_accept(root->listener, root->magic, TYPE_BOOTSTRAP, NULL, &fd);
		if (rc)
			break;
		rc = socket_recv_all(fd, &hello, sizeof(hello), NULL);
		close(fd);
		if (rc || hello.nranks < 1 || hello.nranks > MAX_RANKS || hello.rank < 0 || hello.rank >= hello.nranks) {
			rc = 0;		/* a rank that died on the way */
			continue;
		}
		if (!*all) {
			*nranks = hello.nranks;
			*all = calloc((size_t)*nranks, sizeof(**all));
		}
		if (!*all || hello.nranks != *nranks || (*all)[hello.rank].nranks) {
			nccl_log("WARN", "bootstrap root: rank %d of %d came twice or disagrees", hello.rank, hello.nranks);
			return ncclInternalError;
		}
		(*all)[hello.rank] = hello;
		have++;
	}
	return rc;
}

static void *root_main(void *arg)
{
	struct root *root = arg;
	struct hello *all = NULL;
	int nranks, fd, rc;

	syscall(SYS_prctl, PR_SET_NAME, "NCCL BootstrapR");
	rc = root_collect(root, &all, &nranks);
	for (int r = 0; !rc && r < nranks; r++) {
		rc = socket_connect(&all[r].for_root, root->magic, TYPE_BOOTSTRAP, NULL, &fd);
		if (rc)
			break;
		rc = socket_send_all(fd, &all[(r + 1) % nranks].for_ring, sizeof(struct sockaddr_in), NULL);
		close(fd);
	}
	close(root->listener);
	free(all);
	free(root);
	return NULL;
}

static int root_start(int listener, uint64_t magic)
{
	struct root *root = malloc(sizeof(*root));
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!root)
		return ncclSystemError;
	root->listener = listener;
	root->magic = magic;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, root_main, root);
	pthread_attr_destroy(&attr);
	if (rc)
		free(root);
	return rc ? ncclSystemError : 0;
}

/* "host:port" */
static int parse_address(const char *text, struct sockaddr_in *out)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list;
	const char *colon = strrchr(text, ':');
	char host[256];

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return ncclInvalidArgument;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (getaddrinfo(host, colon + 1, &hints, &list))
		return ncclInvalidArgument;
	memcpy(out, list->ai_addr, sizeof(*out));
	freeaddrinfo(list);
	return 0;
}

int bootstrap_unique_id(ncclUniqueId *id)
{
	struct id_content content = { .magic = NET_MAGIC };
	const char *fixed = getenv("NCCL_COMM_ID");
	struct sockaddr_in local;
	int rc, listener;

	memset(id, 0, sizeof(*id));
	if (fixed && *fixed) {
		content.fixed_address = 1;
		rc = parse_address(fixed, &content.root);
		if (rc)
			return rc;
	} else {
		if (getrandom(&content.magic, sizeof(content.magic), 0) != sizeof(content.magic))
			return ncclSystemError;
		rc = socket_local_address(&local);
		if (!rc)
			rc = socket_listen(&local, &listener, &content.root);
		if (rc)
			return rc;
		rc = root_start(listener, content.magic);
		if (rc) {
			close(listener);
			return rc;
		}
	}
	memcpy(id, &content, sizeof(content));
	return 0;
}

static struct id_content id_read(const ncclUniqueId *id)
{
	struct id_content content;

	memcpy(&content, id, sizeof(content));
	return content;
}

uint64_t bootstrap_magic(const ncclUniqueId *id)
{
	return id_read(id).magic;
}

static int close_ring(struct bootstrap *b, const struct sockaddr_in *next, int listener, const _Atomic bool *abort)
{
	int rc = socket_connect(next, b->magic, TYPE_BOOTSTRAP, abort, &b->next_fd);

	return rc ? rc : socket_accept(listener, b->magic, TYPE_BOOTSTRAP, abort, &b->prev_fd);
}

static int ask_root(struct bootstrap *b, const struct id_content *content, struct hello *hello, int for_root,
		    struct sockaddr_in *next, const _Atomic bool *abort)
{
	int fd, rc;

	rc = socket_connect(&content->root, b->magic, TYPE_BOOTSTRAP, abort, &fd);
	if (rc)
		return rc;
	rc = socket_send_all(fd, hello, sizeof(*hello), abort);
	close(fd);
	if (rc)
		return rc;
	rc = socket_accept(for_root, b->magic, TYPE_BOOTSTRAP, abort, &fd);
	if (rc)
		return rc;
	rc = socket_recv_all(fd, next, sizeof(*next), abort);
	close(fd);
	return rc;
}

int bootstrap_open(struct bootstrap *b, const ncclUniqueId *id, int rank, int nranks, const _Atomic bool *abort)
{
	struct id_content content = id_read(id);
	struct hello hello = { .rank = rank, .nranks = nranks };
	int for_root = -1, for_ring = -1, rc;
	struct sockaddr_in local, next;

	*b = (struct bootstrap){ .rank = rank, .nranks = nranks, .magic = content.magic, .prev_fd = -1, .next_fd = -1 };
	if (content.fixed_address && rank == 0) {
		struct sockaddr_in bound;
		int listener;

		rc = socket_listen(&content.root, &listener, &bound);
		if (!rc)
			rc = root_start(listener, content.magic);
		if (rc)
			return rc;
	}
	rc = socket_local_address(&local);
	if (!rc)
		rc = socket_listen(&local, &for_root, &hello.for_root);
	if (!rc)
		rc = socket_listen(&local, &for_ring, &hello.for_ring);
	if (!rc)
		rc = ask_root(b, &content, &hello, for_root, &next, abort);
	if (!rc)
		rc = close_ring(b, &next, for_ring, abort);
	if (for_root >= 0)
		close(for_root);
	if (for_ring >= 0)
		close(for_ring);
	if (rc)
		bootstrap_close(b);
	return rc;
}

int bootstrap_split(struct bootstrap *b, struct bootstrap *parent, const int *members, int nmembers, uint64_t magic,
		    const _Atomic bool *abort)
{
	struct sockaddr_in local, *all = calloc((size_t)parent->nranks, sizeof(*all));
	int listener = -1, rc = all ? 0 : ncclSystemError;

	*b = (struct bootstrap){ .rank = -1, .nranks = nmembers, .magic = magic, .prev_fd = -1, .next_fd = -1 };
	for (int i = 0; i < nmembers; i++)
		if (members[i] == parent->rank)
			b->rank = i;
	if (!rc && nmembers)
		rc = socket_local_address(&local);
	if (!rc && nmembers)
		rc = socket_listen(&local, &listener, &all[parent->rank]);
	if (!rc)
		rc = bootstrap_allgather(parent, all, sizeof(*all), abort);
	if (!rc && nmembers)
		rc = close_ring(b, &all[members[(b->rank + 1) % nmembers]], listener, abort);
	if (listener >= 0)
		close(listener);
	free(all);
	if (rc)
		bootstrap_close(b);
	return rc;
}

int bootstrap_allgather(struct bootstrap *b, void *all, size_t bytes, const _Atomic bool *abort)
{
	char *slots = all;
	int rc = 0;

	for (int step = 0; step < b->nranks - 1 && !rc; step++) {
		int out = (b->rank - step + b->nranks) % b->nranks, in = (out - 1 + b->nranks) % b->nranks;

		rc = socket_send_all(b->next_fd, slots + (size_t)out * bytes, bytes, abort);
		if (!rc)
			rc = socket_recv_all(b->prev_fd, slots + (size_t)in * bytes, bytes, abort);
	}
	return rc;
}

void bootstrap_close(struct bootstrap *b)
{
	if (b->prev_fd >= 0)
		close(b->prev_fd);
	if (b->next_fd >= 0)
		close(b->next_fd);
	b->prev_fd = b->next_fd = -1;
}
