/* Load for a broker: replay given requests from many connections, each keeping `depth` of them in flight.
 *
 *     load PORT CONNECTIONS DEPTH WARM_SECONDS SECONDS FRAMES [LOGIN]
 *
 * FRAMES holds requests as they go over the wire (int32 size, then the bytes); connection i repeats the i-th, with
 * correlation ids of its own. Writes "begin" when the warm-up is over, then one line of JSON: answers counted after
 * it, their latencies in microseconds, and `odd`: answers whose bytes differ from the connection's first.
 * LOGIN holds requests that each connection sends first, one after the other. Compiled with -DTLS, -lssl and -lcrypto,
 * connections use TLS, and any certificate is taken.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef TLS
#include <openssl/ssl.h>
#endif

enum { MAX_DEPTH = 64, MAX_FRAME = 1 << 14, MAX_ANSWER = 1 << 14, BUCKETS = 64 * 32 };

typedef struct {
    int fd;
#ifdef TLS
    SSL *tls;
#endif
    const uint8_t *request;
    size_t request_size;
    uint32_t sent, answered;             /* correlation ids: the next to send, the next to expect */
    uint64_t sent_at[MAX_DEPTH];
    uint8_t first[MAX_ANSWER];           /* the first answer, to compare the others with */
    size_t first_size;
    uint8_t in[4 * MAX_ANSWER];
    size_t in_size;
    uint8_t out[MAX_DEPTH * MAX_FRAME];
    size_t out_size;
} connection;

static int depth;
static int counting;
static uint64_t answers, odd;
static uint64_t histogram[BUCKETS];

static void fail(const char *what) {
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t read32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8), p[3] = (uint8_t)v;
}

/* Log-linear: 32 buckets per power of two, so a latency is known to 3 %. */
static int bucket(uint64_t ns) {
    if (ns < 32) return (int)ns;
    int exponent = 63 - __builtin_clzll(ns);
    return (exponent - 4) * 32 + (int)((ns >> (exponent - 5)) & 31);
}

static double bucket_us(int i) {
    if (i < 32) return i / 1e3;
    int exponent = i / 32 + 4;
    return (double)((1ull << exponent) + ((uint64_t)(i % 32) << (exponent - 5))) / 1e3;
}

static double percentile(double q) {
    uint64_t seen = 0, goal = (uint64_t)(q * (double)answers);
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > goal) return bucket_us(i);
    return 0;
}

/* As send and recv: -1 with EAGAIN if it would block. */
static ssize_t raw_send(connection *c, const uint8_t *from, size_t size) {
#ifdef TLS
    int done = SSL_write(c->tls, from, (int)size);
    if (done > 0) return done;
    int why = SSL_get_error(c->tls, done);
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
    return -1;
#else
    return send(c->fd, from, size, MSG_NOSIGNAL);
#endif
}

static ssize_t raw_receive(connection *c, uint8_t *to, size_t size) {
#ifdef TLS
    int done = SSL_read(c->tls, to, (int)size);
    if (done > 0) return done;
    int why = SSL_get_error(c->tls, done);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return 0;
    errno = EAGAIN;
    return -1;
#else
    return recv(c->fd, to, size, 0);
#endif
}

static void put(connection *c, uint64_t now) {
    uint8_t *at = c->out + c->out_size;
    memcpy(at, c->request, c->request_size);
    write32(at + 8, c->sent); /* behind the size, the API and its version */
    c->sent_at[c->sent % MAX_DEPTH] = now;
    c->sent++;
    c->out_size += c->request_size;
}

static void flush(connection *c) {
    if (!c->out_size) return;
    ssize_t written = raw_send(c, c->out, c->out_size);
    if (written < 0 && errno != EAGAIN) fail("send");
    if (written <= 0) return;
    c->out_size -= (size_t)written;
    memmove(c->out, c->out + written, c->out_size);
}

static void take(connection *c, const uint8_t *answer, size_t size, uint64_t now) {
    errno = 0;
    if (read32(answer) != c->answered) fail("an answer out of order");
    if (size > MAX_ANSWER) fail("an answer is too large");
    if (!c->first_size) {
        memcpy(c->first, answer, size);
        c->first_size = size;
    } else if (size != c->first_size || memcmp(c->first + 4, answer + 4, size - 4)) {
        odd++;
    }
    if (counting) {
        answers++;
        histogram[bucket(now - c->sent_at[c->answered % MAX_DEPTH])]++;
    }
    c->answered++;
}

static int receive(connection *c) {
    ssize_t got = raw_receive(c, c->in + c->in_size, sizeof c->in - c->in_size);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) fail("the broker closed a connection");
    c->in_size += (size_t)got;
    uint64_t now = now_ns();
    size_t at = 0;
    while (c->in_size - at >= 4) {
        size_t size = read32(c->in + at);
        if (size > MAX_ANSWER) fail("an answer is too large");
        if (c->in_size - at - 4 < size) break;
        take(c, c->in + at + 4, size, now);
        put(c, now);
        at += 4 + size;
    }
    c->in_size -= at;
    memmove(c->in, c->in + at, c->in_size);
    flush(c);
    return 1;
}

/* What TLS has read from the socket and keeps, epoll does not know. More from the socket would be unfair: with several
   requests in flight the server is never idle, and the other connections would wait for this one. */
static void receive_once(connection *c) {
#ifdef TLS
    while (receive(c) && SSL_pending(c->tls)) {}
#else
    receive(c);
#endif
}

static int connect_to(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (void *)&address, sizeof address)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void receive_exactly(connection *c, uint8_t *to, size_t size) {
    while (size) {
        ssize_t got = raw_receive(c, to, size);
        if (got <= 0) fail("the broker closed a connection that logs in");
        to += got, size -= (size_t)got;
    }
}

/* Send the requests of the file, each after the answer to the one before. */
static void log_in(connection *c, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    uint8_t frame[MAX_FRAME], answer[MAX_ANSWER];
    while (fread(frame, 1, 4, file) == 4) {
        size_t size = read32(frame);
        if (size + 4 > MAX_FRAME || fread(frame + 4, 1, size, file) != size) fail("a frame of the login is cut short");
        if (raw_send(c, frame, size + 4) != (ssize_t)(size + 4)) fail("send a login");
        receive_exactly(c, answer, 4);
        size = read32(answer);
        if (size > MAX_ANSWER) fail("an answer is too large");
        receive_exactly(c, answer, size);
        if (size < 6 || answer[4] || answer[5]) fail("a login is refused"); /* the error code, after the correlation id */
    }
    fclose(file);
}

static void open_connection(connection *c, int port, const char *login) {
    c->fd = connect_to(port);
#ifdef TLS
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    c->tls = SSL_new(context);
    SSL_set_tlsext_host_name(c->tls, "localhost");
    SSL_set_fd(c->tls, c->fd);
    if (SSL_connect(c->tls) != 1) fail("TLS handshake");
#endif
    if (login) log_in(c, login);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

static void read_frames(const char *path, connection *connections, int count) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    for (int i = 0; i < count; i++) {
        uint8_t head[4];
        if (fread(head, 1, 4, file) != 4) fail("too few frames");
        size_t size = read32(head);
        uint8_t *frame = malloc(size + 4);
        if (!frame || size + 4 > MAX_FRAME) fail("a frame is too large");
        memcpy(frame, head, 4);
        if (fread(frame + 4, 1, size, file) != size) fail("a frame is cut short");
        connections[i].request = frame;
        connections[i].request_size = size + 4;
    }
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 7 && argc != 8) fail("usage: load PORT CONNECTIONS DEPTH WARM_SECONDS SECONDS FRAMES [LOGIN]");
    int port = atoi(argv[1]), count = atoi(argv[2]);
    depth = atoi(argv[3]);
    double warm = atof(argv[4]), seconds = atof(argv[5]);
    if (depth < 1 || depth > MAX_DEPTH || count < 1) fail("depth is 1 to 64, connections at least 1");

    connection *connections = calloc((size_t)count, sizeof *connections);
    int poll = epoll_create1(0);
    if (!connections || poll < 0) fail("set-up");
    read_frames(argv[6], connections, count);
    for (int i = 0; i < count; i++) {
        connection *c = &connections[i];
        open_connection(c, port, argc == 8 ? argv[7] : NULL);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
    }

    uint64_t begin = now_ns() + (uint64_t)(warm * 1e9), end = begin + (uint64_t)(seconds * 1e9), now;
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < depth; d++) put(&connections[i], now_ns());
        flush(&connections[i]);
    }
    while ((now = now_ns()) < end) {
        if (!counting && now >= begin) {
            counting = 1;
            begin = now;
            puts("begin");
            fflush(stdout);
        }
        struct epoll_event events[512];
        int ready = epoll_wait(poll, events, 512, 100);
        for (int i = 0; i < ready; i++) receive_once(events[i].data.ptr);
    }
    printf("{\"answers\": %lu, \"seconds\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"odd\": %lu}\n",
           (unsigned long)answers, (double)(now - begin) / 1e9, percentile(0.5), percentile(0.99), (unsigned long)odd);
    return 0;
}
