/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of descriptors and the words for them. The wrappers are linked in but not switched on.
 */
#include "shim/fdtab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "shim/strings.h"
#include "shim/sys.h"
#include "shim/target.h"

static const char *word(int fd)
{
	static char text[4097];
	const struct pf_strings *s = strings_lookup();
	uint64_t target = target_of_fd(fd);
	size_t len;
	const char *p;

	if (!target)
		return "";
	p = s->lookup(s->ctx, PF_STRINGS, strings_target_iid(target), &len);
	assert_non_null(p);
	memcpy(text, p, len);
	text[len] = 0;
	return text;
}

static void given_up(int fd)
{
	fdtab_forget(fd);
	close(fd);
}

static void classes_are_found_on_first_use(void **state)
{
	int p[2], fd;
	char want[64];
	struct stat st;

	fd = open("/dev/null", O_RDWR);
	assert_int_equal(fdtab_class(fd), FD_FILTERED);
	given_up(fd);
	fd = open("/proc/self/stat", O_RDONLY);
	assert_int_equal(fdtab_class(fd), FD_FILTERED);
	given_up(fd);
	fd = open("/etc/passwd", O_RDONLY);
	assert_int_equal(fdtab_class(fd), FD_FILE);
	assert_string_equal(word(fd), "/etc/passwd");
	given_up(fd);
	fd = open("/tmp", O_RDONLY);
	assert_int_equal(fdtab_class(fd), FD_FILE);
	given_up(fd);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(fdtab_class(p[0]), FD_PIPE);
	fstat(p[1], &st);
	sprintf(want, "pipe:[%lu]", (unsigned long)st.st_ino);
	assert_string_equal(word(p[1]), want);
	given_up(p[0]);
	given_up(p[1]);
	fd = eventfd(0, 0);
	assert_int_equal(fdtab_class(fd), FD_OTHER);
	assert_string_equal(word(fd), "fd:eventfd");
	given_up(fd);
	fd = epoll_create1(0);
	assert_string_equal(word(fd), "fd:eventpoll");
	given_up(fd);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(fdtab_class(fd), FD_UNIX);
	assert_int_equal(strncmp(word(fd), "unix:[", 6), 0);
	given_up(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(fdtab_class(fd), FD_UDP);
	given_up(fd);
	fd = socket(AF_INET6, SOCK_STREAM, 0);
	assert_int_equal(fdtab_class(fd), FD_TCP);
	given_up(fd);
	assert_int_equal(fdtab_class(-1), FD_FILTERED);
	assert_int_equal(fdtab_class(FDTAB_SIZE), FD_FILTERED);
	assert_int_equal(fdtab_class(4000), FD_OTHER);	/* not open: the call will say so */
	assert_string_equal(word(4000), "");
}

static void addresses_are_written_as_the_vocabulary_says(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char want[80];

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	getsockname(fd, (struct sockaddr *)&a, &len);
	sprintf(want, "tcp:127.0.0.1:%d", ntohs(a.sin_port));
	assert_string_equal(word(fd), want);
	given_up(fd);
	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	len = sizeof(a6);
	if (bind(fd, (struct sockaddr *)&a6, sizeof(a6)) == 0) {
		getsockname(fd, (struct sockaddr *)&a6, &len);
		sprintf(want, "udp:[0:0:0:0:0:0:0:1]:%d", ntohs(a6.sin6_port));
		assert_string_equal(word(fd), want);
	}
	given_up(fd);
}

static void a_number_given_out_anew_is_looked_at_anew(void **state)
{
	int fd = open("/etc/passwd", O_RDONLY), other = open("/etc/hostname", O_RDONLY);

	assert_string_equal(word(fd), "/etc/passwd");
	dup2(other, fd);
	fdtab_forget(fd);
	assert_string_equal(word(fd), "/etc/hostname");
	given_up(fd);
	given_up(other);
}

static void interpreter_noise_is_known_by_its_path(void **state)
{
	assert_true(fdtab_is_noise("/usr/lib/python3.11/os.py"));
	assert_true(fdtab_is_noise("x/__pycache__/a.cpython-311.pyc"));
	assert_true(fdtab_is_noise("/opt/v/lib/python3.9/site-packages/torch/version.txt"));
	assert_false(fdtab_is_noise("/data/train/0001.jpg"));
	assert_false(fdtab_is_noise("/data/python.tar"));
	assert_false(fdtab_is_noise(""));
}

static struct fd_entry *connection(void)
{
	static struct fd_entry e;

	memset(&e, 0, sizeof(e));
	return &e;
}

static void role_comes_from_the_first_twelve_bytes(void **state)
{
	struct fd_entry *e = connection();
	uint64_t net = 0x564ab9f2fc4b9d6cu, random = 0x1122334455667788u;
	uint32_t type = 3, bootstrap = 1;
	char both[12];

	fdtab_hello(e, FD_WRITES, &net, 8);
	assert_int_equal(e->role, ROLE_UNKNOWN);
	fdtab_hello(e, FD_READS, "answer first", 12);
	fdtab_hello(e, FD_WRITES, &type, 4);
	assert_int_equal(e->role, ROLE_NCCL);

	e = connection();
	fdtab_hello(e, FD_READS, &random, 8);
	fdtab_hello(e, FD_READS, &bootstrap, 4);
	assert_int_equal(e->role, ROLE_NCCL_BOOTSTRAP);

	e = connection();
	memcpy(both, &net, 8);
	memcpy(both + 8, &type, 4);
	fdtab_hello(e, FD_READS, both, 12);
	assert_int_equal(e->role, ROLE_NCCL);

	e = connection();
	fdtab_hello(e, FD_WRITES, "GET / HTTP/1.1\r\n", 16);
	assert_int_equal(e->role, ROLE_OTHER);
	e = connection();
	fdtab_hello(e, FD_WRITES, "GET ", 4);
	assert_int_equal(e->role, ROLE_OTHER);
}

static int init(void **state)
{
	fdtab_init();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_found_on_first_use),
		cmocka_unit_test(addresses_are_written_as_the_vocabulary_says),
		cmocka_unit_test(a_number_given_out_anew_is_looked_at_anew),
		cmocka_unit_test(interpreter_noise_is_known_by_its_path),
		cmocka_unit_test(role_comes_from_the_first_twelve_bytes),
	};

	return cmocka_run_group_tests(tests, init, NULL);
}
