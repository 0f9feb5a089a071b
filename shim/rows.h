/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrapped libc functions: a row each in file.def, net.def, wait.def and proc.def,
 *
 *	API(return type, symbol, call of trace/calls.def, (typed params), (args), CAPTURE(...))
 *
 * From the rows come the exported wrappers, the pointers to the real functions and the table that documents and tests them.
 * HAND(symbol, call) marks one whose wrapper is written by hand below the include.
 */
#ifndef WHYIDLE_SHIM_ROWS_H
#define WHYIDLE_SHIM_ROWS_H

#include <stdint.h>

#include "trace/calls.h"

#define EXPORT __attribute__((visibility("default")))

struct row {
	const char *name;	/* exported symbol */
	enum call call;		/* what it is recorded as; CALL_NONE: only followed (dup, fcntl, exit) */
	void **real;
};

/* All rows of libc functions, in groups; NULL ends. */
extern const struct row *const rows_groups[] __attribute__((visibility("hidden")));

/* Finds all real functions now. From the constructor. */
void rows_resolve(void);

/* Finds one, keeps it in *real, returns it; NULL when libc has none of that name. While a lookup is under way in this thread (the
 * dynamic linker may call an allocator, and that one us) the bare system call stands in. */
void *rows_find(const char *name, void **real);

#define REAL(name) \
	(__extension__({ \
		void *p_ = __atomic_load_n((void **)&real_##name, __ATOMIC_RELAXED); \
		(__typeof__(real_##name))(p_ ? p_ : rows_find(#name, (void **)&real_##name)); \
	}))

/* The body that every row expands to. */
#define ROWS_WRAP(ret, name, called, params, args, capture) \
	EXPORT ret name params; \
	EXPORT ret name params \
	{ \
		__typeof__(real_##name) real = REAL(name); \
		const enum call id = CALL_##called; \
		struct seen seen; \
		ret r; \
		if (__builtin_expect(!real, 0)) { \
			errno = ENOSYS; \
			return (ret)(intptr_t)-1; \
		} \
		if (!(BEGIN_##capture)) \
			return real args; \
		r = real args; \
		END_##capture; \
		return r; \
	}

#define ROWS_POINTER(ret, name, called, params, args, capture) static ret (*real_##name) params;
#define ROWS_ENTRY(ret, name, called, params, args, capture) { #name, CALL_##called, (void **)&real_##name },
#define ROWS_HAND_ENTRY(name, called) { #name, CALL_##called, (void **)&real_##name },

#endif
