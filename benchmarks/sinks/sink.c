/* The least any server can do for Produce and Fetch: one thread, epoll, one log file, fixed layouts. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 21, PATCHED_SIZE = 16, CRC_AT = 17, CRC_START = 21, TAIL_OF_PRODUCE = 3, EVENTS = 64 };
enum { READ_BYTES = 1 << 16, LARGE_BYTES = 1 << 16 };

struct connection {
    int fd;
    size_t filled, limit;
    unsigned char *in;
};

static int log_fd;
static int64_t end_offset;
static size_t records_at, base_offset_at, fetch_offset_at, batch_size;
static unsigned char *reply, *head, *tail;
static size_t reply_size, head_size, tail_size;
static unsigned char *out;
static size_t out_size, out_room;
static uint32_t table[8][256];

static void make_table(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        table[0][value] = crc;
    }
    for (int row = 1; row < 8; row++)
        for (int value = 0; value < 256; value++)
            table[row][value] = table[row - 1][value] >> 8 ^ table[0][table[row - 1][value] & 255];
}

static uint32_t crc32c_table(uint32_t crc, const unsigned char *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word = le64toh(word) ^ crc;
        crc = 0;
        for (int byte = 0; byte < 8; byte++) crc ^= table[7 - byte][word >> 8 * byte & 255];
    }
    while (size--) crc = crc >> 8 ^ table[0][(crc ^ *data++) & 255];
    return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

enum { LANE = 1024 };
static uint32_t shift_one[4][256], shift_two[4][256];

/* What feeding `zeros` zero bytes does to a CRC, as a table per byte of it: it is linear. */
static void make_shift(uint32_t shift[4][256], size_t zeros) {
    static const unsigned char nothing[2 * LANE];
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++)
            shift[byte][value] = crc32c_table(value << 8 * byte, nothing, zeros);
}

static uint32_t shifted(uint32_t shift[4][256], uint32_t crc) {
    return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^ shift[3][crc >> 24];
}

/* Three lanes at once, since the instruction takes three cycles and one can begin in each. */
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const unsigned char *data, size_t size) {
    uint64_t first = crc, second, third;
    for (; size >= 3 * LANE; data += 3 * LANE, size -= 3 * LANE) {
        second = third = 0;
        for (size_t at = 0; at < LANE; at += 8) {
            first = _mm_crc32_u64(first, *(const uint64_t *)(data + at));
            second = _mm_crc32_u64(second, *(const uint64_t *)(data + LANE + at));
            third = _mm_crc32_u64(third, *(const uint64_t *)(data + 2 * LANE + at));
        }
        first = shifted(shift_two, (uint32_t)first) ^ shifted(shift_one, (uint32_t)second) ^ (uint32_t)third;
    }
    for (; size >= 8; data += 8, size -= 8) first = _mm_crc32_u64(first, *(const uint64_t *)data);
    crc = (uint32_t)first;
    while (size--) crc = _mm_crc32_u8(crc, *data++);
    return crc;
}
#endif

static uint32_t (*update_crc)(uint32_t, const unsigned char *, size_t) = crc32c_table;

static void choose_crc(void) {
    make_table();
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        make_shift(shift_one, LANE);
        make_shift(shift_two, 2 * LANE);
        update_crc = crc32c_sse42;
    }
#endif
}

static uint32_t read32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return be32toh(value);
}

static void write32(unsigned char *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static void write64(unsigned char *at, uint64_t value) {
    value = htobe64(value);
    memcpy(at, &value, 8);
}

static unsigned char *reserve(size_t size) {
    if (out_size + size > out_room) {
        out_room = 2 * (out_size + size);
        out = realloc(out, out_room);
    }
    unsigned char *place = out + out_size;
    out_size += size;
    return place;
}

static int append(unsigned char *records, size_t size, const unsigned char *correlation_id) {
    if ((update_crc(~0u, records + CRC_START, size - CRC_START) ^ ~0u) != read32(records + CRC_AT)) return 0;
    unsigned char patch[PATCHED_SIZE];
    write64(patch, (uint64_t)end_offset);
    write32(patch + 8, (uint32_t)size - 12);
    write32(patch + 12, 0);
    struct iovec pieces[] = {{patch, PATCHED_SIZE}, {records + PATCHED_SIZE, size - PATCHED_SIZE}};
    if (writev(log_fd, pieces, 2) != (ssize_t)size) return 0;
    unsigned char *answer = reserve(reply_size);
    memcpy(answer, reply, reply_size);
    memcpy(answer + 4, correlation_id, 4);
    write64(answer + base_offset_at, (uint64_t)end_offset++);
    return 1;
}

static int send_records(const unsigned char *frame, const unsigned char *correlation_id) {
    uint64_t offset;
    memcpy(&offset, frame + fetch_offset_at, 8);
    unsigned char *answer = reserve(head_size + batch_size + tail_size);
    memcpy(answer, head, head_size);
    memcpy(answer + 4, correlation_id, 4);
    off_t position = (off_t)(be64toh(offset) * batch_size);
    if (pread(log_fd, answer + head_size, batch_size, position) != (ssize_t)batch_size) return 0;
    memcpy(answer + head_size + batch_size, tail, tail_size);
    return 1;
}

static int flush(int fd) {
    for (size_t sent = 0; sent < out_size;) {
        ssize_t count = write(fd, out + sent, out_size - sent);
        if (count < 0) return 0;
        sent += (size_t)count;
    }
    out_size = 0;
    return 1;
}

static int answer_frames(struct connection *client) {
    size_t start = 0;
    client->limit = READ_BYTES;
    while (client->filled - start >= 12) {
        unsigned char *frame = client->in + start;
        size_t size = 4 + read32(frame);
        if (start + size > client->filled) {
            /* A large frame is read to its end and no further, so that nothing behind it has to be moved. */
            if (size > READ_BYTES) client->limit = size;
            break;
        }
        int is_produce = frame[4] == 0 && frame[5] == 0;
        int done = is_produce ? append(frame + records_at, size - records_at - TAIL_OF_PRODUCE, frame + 8)
                              : send_records(frame, frame + 8);
        if (!done || (out_size >= LARGE_BYTES && !flush(client->fd))) return 0;
        start += size;
    }
    memmove(client->in, client->in + start, client->filled - start);
    client->filled -= start;
    return flush(client->fd);
}

static unsigned char *from_hex(const char *text, size_t *size) {
    *size = strlen(text) / 2;
    unsigned char *bytes = malloc(*size);
    for (size_t at = 0; at < *size; at++) sscanf(text + 2 * at, "%2hhx", bytes + at);
    return bytes;
}

static int listen_on_free_port(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024)) exit(1);
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void watch(int poll, int fd, struct connection *client) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
}

static void welcome(int poll, int listener) {
    struct connection *client = calloc(1, sizeof *client);
    int on = 1;
    client->fd = accept(listener, NULL, NULL);
    client->in = malloc(BUFFER_BYTES);
    client->limit = READ_BYTES;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(poll, client->fd, client);
}

int main(int count, char **arguments) {
    if (count != 9) return 2;
    log_fd = open(arguments[1], O_CREAT | O_RDWR | O_APPEND, 0644);
    records_at = strtoul(arguments[2], NULL, 10);
    reply = from_hex(arguments[3], &reply_size);
    base_offset_at = strtoul(arguments[4], NULL, 10);
    fetch_offset_at = strtoul(arguments[5], NULL, 10);
    head = from_hex(arguments[6], &head_size);
    tail = from_hex(arguments[7], &tail_size);
    batch_size = strtoul(arguments[8], NULL, 10);
    choose_crc();
    int listener = listen_on_free_port(), poll = epoll_create1(0);
    watch(poll, listener, NULL);
    for (struct epoll_event events[EVENTS];;) {
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int number = 0; number < ready; number++) {
            struct connection *client = events[number].data.ptr;
            if (!client) {
                welcome(poll, listener);
                continue;
            }
            ssize_t size = read(client->fd, client->in + client->filled, client->limit - client->filled);
            if (size > 0) client->filled += (size_t)size;
            if (size <= 0 || !answer_frames(client)) {
                close(client->fd);
                free(client->in);
                free(client);
            }
        }
    }
}
