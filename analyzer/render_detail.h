/* SPDX-License-Identifier: Apache-2.0
 *
 * What -v adds to the text: all leaves of all ledgers and windows, how steps were found, the thresholds.
 */
#ifndef WHYIDLE_ANALYZER_RENDER_DETAIL_H
#define WHYIDLE_ANALYZER_RENDER_DETAIL_H

struct out;
struct result;

void render_detail(const struct out *o, const struct result *r);

#endif
