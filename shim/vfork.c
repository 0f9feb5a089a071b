/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrapper of vfork. The child runs on its parent's memory, stack and thread-local storage until it execs or ends, while the
 * parent is suspended. Between the two returns tls.vforked is set: every wrapper then only calls the real function, and nothing of
 * the parent's state is touched.
 *
 * A C function cannot call vfork and return: the child would destroy the frame that the parent returns through. So the return
 * address waits in thread-local storage, on a small stack since a child may vfork again.
 */
#include "shim/vfork.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include "shim/rows.h"
#include "shim/seen.h"

#define DEEPEST 8

#define TLS_IE __attribute__((tls_model("initial-exec")))

static _Thread_local struct {
	void *back[DEEPEST];
	struct span span;		/* of the outermost */
} saved TLS_IE;

/* What the assembler below calls. Hidden; not static, so that the assembler finds them. */
void *vfork_enter(void *back) __attribute__((visibility("hidden"), used));
void *vfork_leave(long pid) __attribute__((visibility("hidden"), used));

void *vfork_enter(void *back)
{
	saved.back[tls.vforked < DEEPEST ? tls.vforked : DEEPEST - 1] = back;
	if (!tls.vforked) {
		saved.span.start_ns = 0;
		if (seen_on())
			span_begin(&saved.span, CALL_vfork);
	}
	tls.vforked++;
	return vfork_real();
}

/* In the child (0) the mark stays up; in the parent (or after failure) it comes down one step. */
void *vfork_leave(long pid)
{
	unsigned at = tls.vforked <= DEEPEST ? tls.vforked - 1 : DEEPEST - 1;

	if (pid != 0) {
		tls.vforked--;
		if (!tls.vforked && saved.span.start_ns) {
			int err = pid < 0 ? errno : 0, keep = errno;

			saved.span.target_kind = pid > 0 ? TARGET_PID : TARGET_NONE;
			saved.span.target = pid;
			saved.span.always = saved.span.limited = true;
			span_end(&saved.span, err);
			errno = keep;
		}
	}
	return saved.back[at];
}

#if defined(__x86_64__)
/* The stack is aligned for calls after the return address has been taken off. */
__asm__(
	".pushsection .text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	call vfork_enter\n"
	"	call *%rax\n"
	"	pushq %rax\n"
	"	subq $8, %rsp\n"
	"	movslq %eax, %rdi\n"
	"	call vfork_leave\n"
	"	movq %rax, %rdx\n"
	"	addq $8, %rsp\n"
	"	popq %rax\n"
	"	jmp *%rdx\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".popsection\n");
#else
/* Elsewhere the wrapper would need that machine's assembler; a fork has the same meaning for a program that keeps to vfork's rules. */
EXPORT pid_t vfork(void)
{
	(void)vfork_enter;
	(void)vfork_leave;
	return fork();
}
#endif
