/* SPDX-License-Identifier: Apache-2.0
 *
 * Field numbers of Perfetto's messages, for the code that writes and reads bytes by hand. The same numbers stand in
 * whyidle.proto; the writer's test holds both together byte for byte.
 */
#ifndef WHYIDLE_TRACE_FIELDS_H
#define WHYIDLE_TRACE_FIELDS_H

enum pf_trace_field { TRACE_PACKET = 1 };

enum pf_packet_field {
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE_ID = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_TRACE_STATS = 35,
	PACKET_PREVIOUS_DROPPED = 42,
	PACKET_COMPRESSED = 50,
	PACKET_CLOCK_ID = 58,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK_DESCRIPTOR = 60,
	PACKET_TRACE_UUID = 89,
	PACKET_ATTRIBUTES = 126,
	PACKET_ZSTD_COMPRESSED = 133,
};

enum pf_sequence_flag { SEQ_STATE_CLEARED = 1, SEQ_NEEDS_STATE = 2 };

/* previous_packet_dropped is a mask since Perfetto v57; 1 alone may only mean "first packet, cannot know". */
enum pf_dropped { DROPPED_PRESENT = 1, DROPPED_PRODUCER_FULL = 256 };

enum pf_event_field {
	EVENT_ANNOTATIONS = 4,
	EVENT_LEGACY = 6,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK_UUID = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_VALUE = 30,
	EVENT_OLD_FLOW_IDS = 36,		/* before v26: varints */
	EVENT_OLD_END_FLOW_IDS = 42,
	EVENT_DOUBLE_COUNTER_VALUE = 44,
	EVENT_FLOW_IDS = 47,
	EVENT_END_FLOW_IDS = 48,
};

enum pf_event_type { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

enum pf_legacy_field {
	LEGACY_NAME_IID = 1,
	LEGACY_PHASE = 2,
	LEGACY_DURATION_US = 3,
};

enum pf_annotation_field {
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_STRING = 6,
	ANNOTATION_POINTER = 7,
	ANNOTATION_JSON = 9,
	ANNOTATION_NAME = 10,
	ANNOTATION_STRING_IID = 17,
};

enum pf_interned_field {
	INTERNED_EVENT_NAMES = 2,
	INTERNED_ANNOTATION_NAMES = 3,
	INTERNED_ANNOTATION_STRINGS = 29,
	/* of each entry */
	ENTRY_IID = 1,
	ENTRY_VALUE = 2,
};

enum pf_defaults_field {
	DEFAULTS_TRACK_EVENT = 11,
	DEFAULTS_CLOCK_ID = 58,
	/* of track_event_defaults */
	DEFAULTS_EVENT_TRACK_UUID = 11,
};

enum pf_snapshot_field {
	SNAPSHOT_CLOCKS = 1,
	SNAPSHOT_PRIMARY = 2,
	/* of each clock */
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,
	CLOCK_IS_INCREMENTAL = 3,
	CLOCK_UNIT_NS = 4,
};

enum pf_builtin_clock {
	BUILTIN_REALTIME = 1,
	BUILTIN_MONOTONIC = 3,
	BUILTIN_BOOTTIME = 6,
	CLOCK_SEQ_FIRST = 64,			/* 64..127 belong to one sequence */
	CLOCK_SEQ_LAST = 127,
};

enum pf_track_field {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT_UUID = 5,
	TRACK_COUNTER = 8,
	TRACK_STATIC_NAME = 10,
	TRACK_CHILD_ORDERING = 11,
	TRACK_RANK = 12,
	TRACK_ATRACE_NAME = 13,
	TRACK_DESCRIPTION = 14,
	TRACK_MERGE_BEHAVIOR = 15,
	MERGE_NONE = 2,				/* a value of TRACK_MERGE_BEHAVIOR */
};

enum pf_process_field {
	PROCESS_PID = 1,
	PROCESS_CMDLINE = 2,
	PROCESS_NAME = 6,
	PROCESS_START_NS = 7,
	PROCESS_LABELS = 8,
};

enum pf_thread_field { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };

enum pf_counter_field {
	COUNTER_UNIT = 3,
	COUNTER_UNIT_MULTIPLIER = 4,
	COUNTER_IS_INCREMENTAL = 5,
	COUNTER_UNIT_NAME = 6,
};

enum pf_attribute_field {
	ATTRIBUTES_ATTRIBUTE = 1,
	/* of each attribute */
	ATTRIBUTE_KEY = 1,
	ATTRIBUTE_LONG = 2,
	ATTRIBUTE_STRING = 3,
};

enum pf_uuid_field { UUID_MSB = 1, UUID_LSB = 2 };

enum pf_stats_field {
	STATS_BUFFER = 1,
	STATS_WRITER = 18,
	/* of each buffer's stats */
	BUFFER_CHUNKS_OVERWRITTEN = 3,
	BUFFER_CHUNKS_DISCARDED = 18,
	BUFFER_WRITER_PACKET_LOSS = 19,
	/* of each writer's stats */
	WRITER_SEQUENCE_ID = 1,
	WRITER_BUFFER = 4,
};

#endif
