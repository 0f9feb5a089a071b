/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables behind calls.h, all made from calls.def. Lookup by name goes through a hash table that is filled by the
 * compiler's constructor-free means: a sorted index built once on first use would need a lock, so it is searched by a hash
 * of length and a few bytes that is computed at compile time is not possible in C either; see call_by_name for what is done.
 */
