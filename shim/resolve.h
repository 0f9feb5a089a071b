/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the real functions behind our wrappers. Never allocates by itself; usable before the constructor.
 */
#ifndef WHYIDLE_SHIM_RESOLVE_H
#define WHYIDLE_SHIM_RESOLVE_H

/* The next definition of `name` after ours in search order, NULL when there is none. Keeps errno. */
void *resolve_next(const char *name);
/* The same for one version of the symbol ("GLIBC_2.3.2"), falling back to resolve_next. */
void *resolve_next_version(const char *name, const char *version);

/* The real `name` of a library that may have been loaded privately (RTLD_LOCAL, by Python): the next definition; else the
 * definition seen by the object that contains `caller` (a return address, may be NULL) or its dependencies; else the one in any loaded object whose
 * file name begins with `lib_prefix` ("libcudart", may be NULL). A definition inside this library is never returned. NULL when
 * nothing has it; the caller may ask again later. Takes the loader's lock: not for the hot path, cache what it returns. Keeps errno. */
void *resolve_symbol(const char *name, const char *lib_prefix, const void *caller);

/* The file name of the first loaded object whose base name begins with `lib_prefix`, copied to `path` (`len` bytes, cut);
 * 0, or -ENOENT. */
int resolve_loaded(const char *lib_prefix, char *path, unsigned long len);

#endif
