/* CRC-32C at 15 bytes a cycle where the processor has carry-less products of 256 bits; elsewhere can_run() says no.

   A block is read as four stretches side by side: three go through the crc32 instruction, the fourth through folding
   by carry-less products, since each of the two keeps another part of the processor busy. Polynomials are kept bit
   reversed, as the instruction has them. A product of two of 32 bits comes out multiplied by x^33; so a power x^n is
   kept as x^(n-33), and the product of two of those is right again. */

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

#define FAST __attribute__((target("avx2,sse4.2,pclmul,vpclmulqdq")))

enum { SCALAR_WORDS = 5, VECTOR_WORDS = 16, BLOCK_WORDS = 3 * SCALAR_WORDS + VECTOR_WORDS, POWERS = 48 };

static uint32_t powers[POWERS]; /* x^(64 * 2^k), to shift by 2^k words */
static uint64_t fold_128[2], fold_32[2], fold_16[2];

static uint64_t power_of_x(unsigned n) {
    uint32_t value = 0x80000000u;
    while (n--) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
    return value;
}

static void fold_by(uint64_t constants[2], unsigned bytes) {
    constants[0] = power_of_x(8 * bytes + 31);
    constants[1] = power_of_x(8 * bytes - 33);
}

FAST static inline uint32_t product(uint32_t a, uint32_t b) {
    __m128i both = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(both));
}

FAST static uint32_t power_of_words(size_t words) {
    uint32_t result = 0;
    int is_first = 1;
    for (unsigned k = 0; words; words >>= 1, k++) {
        if (!(words & 1)) continue;
        result = is_first ? powers[k] : product(result, powers[k]);
        is_first = 0;
    }
    return result;
}

FAST static void prepare_tables(void) {
    powers[0] = 1; /* x^31 */
    for (unsigned k = 1; k < POWERS; k++) powers[k] = product(powers[k - 1], powers[k - 1]);
    fold_by(fold_128, 128);
    fold_by(fold_32, 32);
    fold_by(fold_16, 16);
}

static int can_run(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("vpclmulqdq");
}

FAST static inline __m256i fold(__m256i value, __m256i constants, __m256i next) {
    __m256i low = _mm256_clmulepi64_epi128(value, constants, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(value, constants, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

FAST static inline __m256i pair(const uint64_t constants[2]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)constants));
}

FAST static inline __m256i load(const uint8_t *data) { return _mm256_loadu_si256((const __m256i *)data); }

FAST static inline uint64_t word(const uint8_t *data) {
    uint64_t value;
    memcpy(&value, data, 8);
    return value;
}

FAST static uint32_t crc_of_folded(__m256i folded) {
    __m128i constants = _mm_loadu_si128((const __m128i *)fold_16), low = _mm256_castsi256_si128(folded);
    __m128i last = _mm_xor_si128(_mm_clmulepi64_si128(low, constants, 0x00), _mm_clmulepi64_si128(low, constants, 0x11));
    last = _mm_xor_si128(last, _mm256_extracti128_si256(folded, 1));
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(last));
    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(last, 1));
}

FAST static uint32_t crc_of_blocks(uint32_t crc, const uint8_t *data, size_t blocks) {
    const size_t stretch = 8 * SCALAR_WORDS * blocks;
    const uint8_t *first = data, *second = first + stretch, *third = second + stretch, *vector = third + stretch;
    uint64_t a = crc, b = 0, c = 0;
    __m256i v0 = load(vector), v1 = load(vector + 32), v2 = load(vector + 64), v3 = load(vector + 96);
    const __m256i constants = pair(fold_128);
    for (size_t left = blocks; left--;) {
        if (left) {
            vector += 128;
            v0 = fold(v0, constants, load(vector));
            v1 = fold(v1, constants, load(vector + 32));
            v2 = fold(v2, constants, load(vector + 64));
            v3 = fold(v3, constants, load(vector + 96));
        }
        for (int i = 0; i < SCALAR_WORDS; i++) {
            a = _mm_crc32_u64(a, word(first + 8 * i));
            b = _mm_crc32_u64(b, word(second + 8 * i));
            c = _mm_crc32_u64(c, word(third + 8 * i));
        }
        first += 8 * SCALAR_WORDS, second += 8 * SCALAR_WORDS, third += 8 * SCALAR_WORDS;
    }
    const __m256i nearer = pair(fold_32);
    v3 = fold(fold(fold(v0, nearer, v1), nearer, v2), nearer, v3);
    const uint32_t by_stretch = power_of_words(SCALAR_WORDS * blocks);
    uint32_t scalar = product((uint32_t)a, by_stretch) ^ (uint32_t)b;
    scalar = product(scalar, by_stretch) ^ (uint32_t)c;
    return product(scalar, power_of_words(VECTOR_WORDS * blocks)) ^ crc_of_folded(v3);
}

FAST static uint32_t crc32c_of(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    const size_t blocks = size / (8 * BLOCK_WORDS);
    if (blocks > 3) {
        crc = crc_of_blocks(crc, data, blocks);
        data += 8 * BLOCK_WORDS * blocks, size -= 8 * BLOCK_WORDS * blocks;
    }
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, word(data));
    crc = (uint32_t)wide;
    for (; size; data++, size--) crc = _mm_crc32_u8(crc, *data);
    return ~crc;
}

#else

static int can_run(void) { return 0; }
static void prepare_tables(void) {}
static uint32_t crc32c_of(uint32_t crc, const uint8_t *data, size_t size) { (void)data, (void)size; return crc; }

#endif
