/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and reductions.
 */
#include "examples/simgpu/nccl_internal.h"

#include <string.h>

size_t type_bytes(ncclDataType_t type)
{
	static const uint8_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return (unsigned int)type < sizeof(bytes) ? bytes[type] : 0;
}

bool type_reduces(ncclDataType_t type)
{
	return (unsigned int)type <= ncclBfloat16;
}

static float bits_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint32_t float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static float from_bf16(uint16_t h)
{
	return bits_float((uint32_t)h << 16);
}

static uint16_t to_bf16(float f)
{
	uint32_t bits = float_bits(f);

	if (f != f)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_half(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
	float value;

	if (exponent == 31)
		return bits_float(sign | 0x7f800000 | mantissa << 13);
	if (exponent)
		return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
	value = (float)mantissa * 0x1p-24f;
	return sign ? -value : value;
}

/* Rounds to nearest, ties to even. */
static uint16_t to_half(float f)
{
	uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;

	if (size > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (size >= 0x477ff000)		/* 65520 and more */
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x38800000)		/* subnormal: adding 0.5 leaves the wanted bits at the bottom */
		return (uint16_t)(sign | (float_bits(bits_float(size) + 0.5f) - 0x3f000000));
	return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

#define COMBINE(a, b)                                                                          \
	(op == ncclProd ? (a) * (b) : op == ncclMax ? ((a) > (b) ? (a) : (b)) :                \
	 op == ncclMin ? ((a) < (b) ? (a) : (b)) : (a) + (b))

/* An inner loop for each, sums apart because they are what is used. */
#define REDUCE(ctype)                                                                          \
	do {                                                                                   \
		ctype *a = into;                                                               \
		const ctype *b = from;                                                         \
		if (op == ncclSum || op == ncclAvg)                                            \
			for (size_t i = 0; i < count; i++)                                     \
				a[i] = (ctype)(a[i] + b[i]);                                   \
		else                                                                           \
			for (size_t i = 0; i < count; i++)                                     \
				a[i] = (ctype)COMBINE(a[i], b[i]);                             \
	} while (0)

#define REDUCE_SHORT(from_short, to_short)                                                     \
	do {                                                                                   \
		uint16_t *a = into;                                                            \
		const uint16_t *b = from;                                                      \
		for (size_t i = 0; i < count; i++) {                                           \
			float x = from_short(a[i]), y = from_short(b[i]);                      \
			a[i] = to_short(COMBINE(x, y));                                        \
		}                                                                              \
	} while (0)

void reduce_into(void *into, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
	switch (type) {
	case ncclInt8:		/* sums wrap, as on the device */
	case ncclUint8:
		if (type == ncclInt8 && (op == ncclMax || op == ncclMin))
			REDUCE(int8_t);
		else
			REDUCE(uint8_t);
		break;
	case ncclInt32:
	case ncclUint32:
		if (type == ncclInt32 && (op == ncclMax || op == ncclMin))
			REDUCE(int32_t);
		else
			REDUCE(uint32_t);
		break;
	case ncclInt64:
	case ncclUint64:
		if (type == ncclInt64 && (op == ncclMax || op == ncclMin))
			REDUCE(int64_t);
		else
			REDUCE(uint64_t);
		break;
	case ncclFloat16:
		REDUCE_SHORT(from_half, to_half);
		break;
	case ncclFloat32:
		REDUCE(float);
		break;
	case ncclFloat64:
		REDUCE(double);
		break;
	case ncclBfloat16:
		REDUCE_SHORT(from_bf16, to_bf16);
		break;
	default:
		break;
	}
}

#define DIVIDE(ctype)                                                                          \
	do {                                                                                   \
		ctype *a = data;                                                               \
		for (size_t i = 0; i < count; i++)                                             \
			a[i] = (ctype)(a[i] / (ctype)by);                                      \
	} while (0)

#define DIVIDE_SHORT(from_short, to_short)                                                     \
	do {                                                                                   \
		uint16_t *a = data;                                                            \
		for (size_t i = 0; i < count; i++)                                             \
			a[i] = to_short(from_short(a[i]) / (float)by);                         \
	} while (0)

void reduce_divide(void *data, size_t count, ncclDataType_t type, int by)
{
	switch (type) {
	case ncclInt8:
		DIVIDE(int8_t);
		break;
	case ncclUint8:
		DIVIDE(uint8_t);
		break;
	case ncclInt32:
		DIVIDE(int32_t);
		break;
	case ncclUint32:
		DIVIDE(uint32_t);
		break;
	case ncclInt64:
		DIVIDE(int64_t);
		break;
	case ncclUint64:
		DIVIDE(uint64_t);
		break;
	case ncclFloat16:
		DIVIDE_SHORT(from_half, to_half);
		break;
	case ncclFloat32:
		DIVIDE(float);
		break;
	case ncclFloat64:
		DIVIDE(double);
		break;
	case ncclBfloat16:
		DIVIDE_SHORT(from_bf16, to_bf16);
		break;
	default:
		break;
	}
}
