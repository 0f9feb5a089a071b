/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the traced thread, once per function and calling object. Takes the loader's lock.
 */
#include "shim/cuda_resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "shim/resolve.h"
#include "shim/span.h"

#define NAME_BYTES 64

struct object {
	uintptr_t address, base, end;	/* address: in; the others: where the object lies */
};

static int holds(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *o = data;
	uintptr_t lo = UINTPTR_MAX, hi = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		lo = at < lo ? at : lo;
		hi = at + p->p_memsz > hi ? at + p->p_memsz : hi;
	}
	if (o->address < lo || o->address >= hi)
		return 0;
	o->base = lo;
	o->end = hi;
	return 1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Is the function in a file of that name, or in somebody else's interposer? */
static bool is_from(const void *function, const char *prefix)
{
	Dl_info info;

	return dladdr(function, &info) && info.dli_fname && !strncmp(base_name(info.dli_fname), prefix, strlen(prefix));
}

static bool same_object(const void *a, const void *b)
{
	Dl_info ia, ib;

	return dladdr(a, &ia) && dladdr(b, &ib) && ia.dli_fbase == ib.dli_fbase;
}

/* What the caller's object or its dependencies have. The handle is given back: nothing stays loaded because of us. */
static void *in_caller(const char *name, const void *caller)
{
	void *handle, *p;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return NULL;
	handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	p = dlsym(handle, name);
	dlclose(handle);
	return p && !same_object(p, (const void *)cuda_resolve_slow) ? p : NULL;
}

/* libcudart's symbols carry its version, so a caller gets the one it was linked with, and not the first in search order. But an
 * interposer that stands behind us (unversioned as we are) stays in the chain. */
static void *find_cudart(const char *name, const void *caller)
{
	void *next = resolve_next(name), *own;

	if (next && !is_from(next, "libcudart"))
		return next;
	own = in_caller(name, caller);
	if (own)
		return own;
	return next ? next : resolve_symbol(name, "libcudart", caller);
}

/* NCCL has no versions: the first in search order it is. NVIDIA's profiling name of the same code can't come back to us; an
 * interposer behind us has none and stays in the chain. */
static void *find_nccl(const char *name, const void *caller)
{
	void *f = resolve_symbol(name, "libnccl", caller), *twin;
	char twin_name[NAME_BYTES] = "p";

	if (!f)
		f = resolve_symbol(name, "librccl", NULL);
	if (!f || strlen(name) + 2 > sizeof(twin_name))
		return f;
	strcpy(twin_name + 1, name);
	twin = resolve_symbol(twin_name, "libnccl", caller);
	return twin && same_object(f, twin) ? twin : f;
}

static void remember(struct cuda_function *f, const struct object *o, void *real)
{
	for (unsigned int i = 0; i < CUDA_CALLERS; i++) {
		struct cuda_caller *c = &f->callers[i];
		uintptr_t nothing = 0;

		if (!atomic_compare_exchange_strong_explicit(&c->bytes, &nothing, 1, memory_order_relaxed, memory_order_relaxed))
			continue;
		c->base = o->base;
		c->real = real;
		/* release pairs with the acquire in cuda_resolve */
		atomic_store_explicit(&c->bytes, o->end - o->base, memory_order_release);
		return;
	}
}

void *cuda_resolve_slow(struct cuda_function *f, enum cuda_library library, const char *name, const void *caller)
{
	struct object o = {.address = (uintptr_t)caller};
	int saved = errno;
	void *real;

	span_guard_up();
	real = library == LIBRARY_CUDART ? find_cudart(name, caller) : find_nccl(name, caller);
	if (real && dl_iterate_phdr(holds, &o))
		remember(f, &o, real);
	span_guard_down();
	errno = saved;
	return real;
}
