/* SPDX-License-Identifier: Apache-2.0
 *
 * The outer fields of a TracePacket.
 */
#ifndef WHYIDLE_TRACE_PACKET_H
#define WHYIDLE_TRACE_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/get.h"

enum part {
	PART_SNAPSHOT, PART_EVENT, PART_INTERNED, PART_DEFAULTS, PART_TRACK, PART_STATS, PART_ATTRIBUTES, PART_COMPRESSED,
	PART_COUNT
};

/* The fields of a packet. A part counts only when its bit is in `has`. */
struct packet {
	uint32_t has;
	struct bytes part[PART_COUNT];
	uint64_t timestamp;
	uint32_t seq_id, flags, dropped, clock_id;
	bool has_timestamp, has_zstd;
};

/* Notes down what is there; the parts themselves are not looked into. 0, or -1 when a field is malformed. */
int packet_parse(struct packet *p, struct bytes body);

#endif
