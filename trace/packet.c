/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the parts of a packet.
 */
#include "trace/packet.h"

#include "trace/fields.h"

static void set_part(struct packet *p, enum part part, struct bytes body)
{
	p->part[part] = body;
	p->has |= 1u << part;
}

int packet_parse(struct packet *p, struct bytes body)
{
	struct get_field f;
	int rc;

	p->has = 0;
	p->timestamp = 0;
	p->seq_id = p->flags = p->dropped = p->clock_id = 0;
	p->has_timestamp = p->has_zstd = false;
	GET_EACH(body, &f, rc) {
		switch (GET_KEY(&f)) {
		case GET_VARINT(PACKET_TIMESTAMP):
			p->timestamp = f.v;
			p->has_timestamp = true;
			break;
		case GET_VARINT(PACKET_SEQUENCE_ID):
			p->seq_id = (uint32_t)f.v;
			break;
		case GET_LEN(PACKET_TRACK_EVENT):
			set_part(p, PART_EVENT, f.body);
			break;
		case GET_LEN(PACKET_INTERNED_DATA):
			set_part(p, PART_INTERNED, f.body);
			break;
		case GET_VARINT(PACKET_SEQUENCE_FLAGS):
			p->flags = (uint32_t)f.v;
			break;
		case GET_VARINT(PACKET_PREVIOUS_DROPPED):
			p->dropped = (uint32_t)f.v;
			break;
		case GET_VARINT(PACKET_CLOCK_ID):
			p->clock_id = (uint32_t)f.v;
			break;
		case GET_LEN(PACKET_CLOCK_SNAPSHOT):
			set_part(p, PART_SNAPSHOT, f.body);
			break;
		case GET_LEN(PACKET_DEFAULTS):
			set_part(p, PART_DEFAULTS, f.body);
			break;
		case GET_LEN(PACKET_TRACK_DESCRIPTOR):
			set_part(p, PART_TRACK, f.body);
			break;
		case GET_LEN(PACKET_TRACE_STATS):
			set_part(p, PART_STATS, f.body);
			break;
		case GET_LEN(PACKET_ATTRIBUTES):
			set_part(p, PART_ATTRIBUTES, f.body);
			break;
		case GET_LEN(PACKET_COMPRESSED):
			set_part(p, PART_COMPRESSED, f.body);
			break;
		case GET_LEN(PACKET_ZSTD_COMPRESSED):
			p->has_zstd = true;
			break;
		}
	}
	return rc;
}
