/* CRC-32C (Castagnoli) at memory speed: by the processor's own instruction if it has one, otherwise by tables.

   The instruction for the next eight bytes needs the result of the one before, which takes three clock cycles. So three
   parts of the data are computed side by side and then joined: n zero bytes multiply a checksum by x^(8n), which four
   tables of 256 entries do in four look-ups. */

#ifndef PYCONSUMER_CRC32C_H
#define PYCONSUMER_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC_X86 1
#include <nmmintrin.h>
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC_ARM 1
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#define CRC_POLYNOMIAL 0x82F63B78u /* reflected */
#define CRC_LONG 2048              /* bytes of each of the three parts */
#define CRC_SHORT 256

static uint32_t crc_bytes[8][256];
static uint32_t crc_long[4][256];
static uint32_t crc_short[4][256];
static int crc_hardware;

/* Returns a * b modulo the polynomial. Bit 31 is x^0. */
static uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 31; i >= 0; i--) {
        if (a >> i & 1)
            product ^= b;
        b = b & 1 ? b >> 1 ^ CRC_POLYNOMIAL : b >> 1;
    }
    return product;
}

static void crc_make_shift(uint32_t table[4][256], size_t zero_bytes) {
    uint32_t power = 1u << 31, square = 1u << 23; /* x^0 and x^8 */
    for (size_t n = zero_bytes; n; n >>= 1) {
        if (n & 1)
            power = crc_multiply(power, square);
        square = crc_multiply(square, square);
    }
    for (int k = 0; k < 4; k++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[k][byte] = crc_multiply(power, byte << 8 * k);
}

static inline uint32_t crc_shift(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24];
}

/* Must be called once, before anything else here. */
static void crc32c_init(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int i = 0; i < 8; i++)
            value = value & 1 ? value >> 1 ^ CRC_POLYNOMIAL : value >> 1;
        crc_bytes[0][byte] = value;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            crc_bytes[k][byte] = crc_bytes[k - 1][byte] >> 8 ^ crc_bytes[0][crc_bytes[k - 1][byte] & 0xFF];
    crc_make_shift(crc_long, CRC_LONG);
    crc_make_shift(crc_short, CRC_SHORT);
#if defined(CRC_X86)
    crc_hardware = __builtin_cpu_supports("sse4.2") != 0;
#elif defined(CRC_ARM) && defined(__APPLE__)
    crc_hardware = 1;
#elif defined(CRC_ARM) && defined(__linux__)
    crc_hardware = (getauxval(AT_HWCAP) >> 7 & 1) != 0; /* HWCAP_CRC32 */
#else
    crc_hardware = 0;
#endif
}

static inline uint64_t crc_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static uint32_t crc_by_tables(uint32_t crc, const uint8_t *data, size_t size) {
    while (size >= 8) {
        uint32_t low = (uint32_t)data[0] | (uint32_t)data[1] << 8;
        low = crc ^ (low | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc_bytes[7][low & 0xFF] ^ crc_bytes[6][low >> 8 & 0xFF] ^ crc_bytes[5][low >> 16 & 0xFF] ^
              crc_bytes[4][low >> 24] ^ crc_bytes[3][data[4]] ^ crc_bytes[2][data[5]] ^ crc_bytes[1][data[6]] ^
              crc_bytes[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--)
        crc = crc >> 8 ^ crc_bytes[0][(crc ^ *data++) & 0xFF];
    return crc;
}

#if defined(CRC_X86) || defined(CRC_ARM)

#if defined(CRC_X86)
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_STEP8(crc, word) _mm_crc32_u64((crc), (word))
#define CRC_STEP1(crc, byte) _mm_crc32_u8((uint32_t)(crc), (byte))
#else
#if defined(__ARM_FEATURE_CRC32)
#define CRC_TARGET
#else
#define CRC_TARGET __attribute__((target("+crc")))
#endif
#define CRC_STEP8(crc, word) __crc32cd((uint32_t)(crc), (word))
#define CRC_STEP1(crc, byte) __crc32cb((uint32_t)(crc), (byte))
#endif

/* Returns the checksum of three parts of `part` bytes each, a multiple of 8. */
CRC_TARGET static inline uint32_t crc_three(uint32_t crc, const uint8_t *data, size_t part, uint32_t table[4][256]) {
    uint64_t first = crc, second = 0, third = 0;
    for (const uint8_t *end = data + part; data < end; data += 8) {
        first = CRC_STEP8(first, crc_word(data));
        second = CRC_STEP8(second, crc_word(data + part));
        third = CRC_STEP8(third, crc_word(data + 2 * part));
    }
    return crc_shift(table, crc_shift(table, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

CRC_TARGET static uint32_t crc_by_hardware(uint32_t crc, const uint8_t *data, size_t size) {
    while (size >= 3 * CRC_LONG) {
        crc = crc_three(crc, data, CRC_LONG, crc_long);
        data += 3 * CRC_LONG;
        size -= 3 * CRC_LONG;
    }
    while (size >= 3 * CRC_SHORT) {
        crc = crc_three(crc, data, CRC_SHORT, crc_short);
        data += 3 * CRC_SHORT;
        size -= 3 * CRC_SHORT;
    }
    uint64_t wide = crc;
    for (; size >= 8; size -= 8, data += 8)
        wide = CRC_STEP8(wide, crc_word(data));
    crc = (uint32_t)wide;
    for (; size; size--, data++)
        crc = CRC_STEP1(crc, *data);
    return crc;
}

#endif

/* Returns the checksum of `size` bytes that follow data with the checksum `before` (0: none). */
static uint32_t crc32c_of(const uint8_t *data, size_t size, uint32_t before, int may_use_hardware) {
#if defined(CRC_X86) || defined(CRC_ARM)
    if (crc_hardware && may_use_hardware)
        return ~crc_by_hardware(~before, data, size);
#endif
    (void)may_use_hardware;
    return ~crc_by_tables(~before, data, size);
}

#endif
