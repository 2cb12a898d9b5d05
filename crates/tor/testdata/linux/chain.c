// A chain of client, guard, middle and exit over the TCP of the Linux kernel that runs this program. See README.md.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENT, GUARD, MIDDLE, EXIT, HOSTS };
enum { CELL = 514, MAX_PLAINTEXT = 4048, RECORD_EXTRA = 22, KIST_CELL = 543, SENDME_EVERY = 31, OUTBUF = 32768 };
enum { DATA = 1, SENDME = 2 };
enum { QUEUE = 65536, RING = 8192, PACKET = 1600 };

static const int64_t LATENCY = 20 * 1000 * 1000, KIST_INTERVAL = 2 * 1000 * 1000;

static int nagle, kist, window_cells, tun[HOSTS];
static double up[HOSTS] = {100, 20, 100, 100}, down[HOSTS] = {100, 20, 100, 100}; // Mbit/s
static volatile int64_t delivered;
static pthread_barrier_t ready;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int checked(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static void real_time(int priority)
{
    struct sched_param parameters = {.sched_priority = priority};
    checked(sched_setscheduler(0, SCHED_FIFO, &parameters), "SCHED_FIFO");
    prctl(PR_SET_TIMERSLACK, 1);
}

// The Internet: each packet takes LATENCY, then its turn on the receiver's downlink. The uplinks are token buckets in the kernel.

struct packet {
    int64_t due;
    int length;
    unsigned char bytes[PACKET];
};

static struct packet *wire[HOSTS];
static unsigned first[HOSTS], last[HOSTS];
static int64_t downlink_free[HOSTS];

static void carry(int from)
{
    unsigned char bytes[PACKET];
    int length;
    while ((length = read(tun[from], bytes, sizeof bytes)) > 0) {
        int to = bytes[19] - 1; // last byte of the IPv4 destination
        if (bytes[0] >> 4 != 4 || to < 0 || to >= HOSTS || last[to] - first[to] == RING)
            continue;
        int64_t arrival = now() + LATENCY;
        int64_t start = arrival > downlink_free[to] ? arrival : downlink_free[to];
        struct packet *packet = &wire[to][last[to]++ % RING];
        packet->due = downlink_free[to] = start + (int64_t)(length * 8000 / down[to]);
        packet->length = length;
        memcpy(packet->bytes, bytes, length);
    }
}

static void *internet(void *unused)
{
    real_time(60);
    for (int host = 0; host < HOSTS; host++)
        wire[host] = malloc(sizeof(struct packet) * RING);
    pthread_barrier_wait(&ready);
    for (;;) {
        int64_t time = now(), next = time + 5000000;
        struct pollfd waits[HOSTS];
        for (int host = 0; host < HOSTS; host++) {
            for (; first[host] != last[host]; first[host]++) {
                struct packet *packet = &wire[host][first[host] % RING];
                if (packet->due > time) {
                    next = packet->due < next ? packet->due : next;
                    break;
                }
                if (write(tun[host], packet->bytes, packet->length) < 0)
                    perror("write to host");
            }
            waits[host] = (struct pollfd){tun[host], POLLIN, 0};
        }
        int64_t left = next - now();
        struct timespec timeout = {0, left > 0 ? left : 0};
        if (ppoll(waits, HOSTS, &timeout, NULL) > 0)
            for (int host = 0; host < HOSTS; host++)
                if (waits[host].revents & POLLIN)
                    carry(host);
    }
    return unused;
}

// A channel: cells wait in `queue`, the scheduler moves them to `outbuf`, each write is one record. A record's first two bytes are its length.

struct channel {
    int fd, outbuf_length, unsent_length, in_length, plain_length;
    unsigned head, tail;
    unsigned char queue[QUEUE], outbuf[1 << 24], unsent[MAX_PLAINTEXT + RECORD_EXTRA], in[1 << 18], plain[1 << 14];
};

static unsigned queued(const struct channel *channel)
{
    return channel->tail - channel->head;
}

static void push(struct channel *channel, int kind)
{
    channel->queue[channel->tail++ % QUEUE] = kind;
}

static void to_outbuf(struct channel *channel)
{
    memset(channel->outbuf + channel->outbuf_length, 0, CELL);
    channel->outbuf[channel->outbuf_length] = channel->queue[channel->head++ % QUEUE];
    channel->outbuf_length += CELL;
}

static void write_out(struct channel *channel)
{
    for (;;) {
        if (channel->unsent_length == 0) {
            int plain = channel->outbuf_length < MAX_PLAINTEXT ? channel->outbuf_length : MAX_PLAINTEXT;
            struct pollfd writable = {channel->fd, POLLOUT, 0};
            if (plain == 0 || poll(&writable, 1, 0) <= 0)
                return;
            memset(channel->unsent, 0, RECORD_EXTRA);
            channel->unsent[0] = plain >> 8;
            channel->unsent[1] = plain & 255;
            memcpy(channel->unsent + RECORD_EXTRA, channel->outbuf, plain);
            channel->unsent_length = plain + RECORD_EXTRA;
            channel->outbuf_length -= plain;
            memmove(channel->outbuf, channel->outbuf + plain, channel->outbuf_length);
        }
        int sent = send(channel->fd, channel->unsent, channel->unsent_length, MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            return;
        channel->unsent_length -= checked(sent, "send");
        memmove(channel->unsent, channel->unsent + sent, channel->unsent_length);
    }
}

// As `update_socket_info_impl` reckons, with a factor of 1.
static int64_t kist_limit(struct channel *channel)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    int unsent;
    checked(getsockopt(channel->fd, IPPROTO_TCP, TCP_INFO, &info, &length), "TCP_INFO");
    checked(ioctl(channel->fd, SIOCOUTQNSD, &unsent), "SIOCOUTQNSD");
    int64_t window = info.tcpi_snd_cwnd, out = info.tcpi_unacked, mss = info.tcpi_snd_mss;
    int64_t space = out < window ? (window - out) * mss : 0;
    int64_t limit = space + window * mss - unsent - channel->outbuf_length - channel->unsent_length;
    return limit > 0 ? limit : 0;
}

static void schedule(struct channel *channel)
{
    if (kist) {
        int64_t limit = kist_limit(channel);
        for (int64_t moved = KIST_CELL; queued(channel) && moved <= limit; moved += KIST_CELL)
            to_outbuf(channel);
        write_out(channel);
        return;
    }
    int before;
    do {
        while (queued(channel) && channel->outbuf_length < OUTBUF)
            to_outbuf(channel);
        before = channel->outbuf_length;
        write_out(channel);
    } while (queued(channel) && channel->outbuf_length < before);
}

static int in_flight; // DATA cells, at the exit
static int64_t received; // DATA cells, at the client

static void take_cell(int host, struct channel *from, struct channel *other, int kind)
{
    if (host == CLIENT) {
        delivered = ++received;
        if (received % SENDME_EVERY == 0)
            push(from, SENDME);
    } else if (host == EXIT) {
        in_flight -= SENDME_EVERY;
    } else {
        push(other, kind);
    }
}

static void read_in(int host, struct channel *channel, struct channel *other)
{
    int got = recv(channel->fd, channel->in + channel->in_length, sizeof channel->in - channel->in_length, MSG_DONTWAIT);
    if (got <= 0)
        return;
    channel->in_length += got;
    int done = 0;
    while (channel->in_length - done >= RECORD_EXTRA) {
        int plain = channel->in[done] << 8 | channel->in[done + 1];
        if (channel->in_length - done < RECORD_EXTRA + plain)
            break;
        memcpy(channel->plain + channel->plain_length, channel->in + done + RECORD_EXTRA, plain);
        channel->plain_length += plain;
        done += RECORD_EXTRA + plain;
        int at = 0;
        for (; channel->plain_length - at >= CELL; at += CELL)
            take_cell(host, channel, other, channel->plain[at]);
        channel->plain_length -= at;
        memmove(channel->plain, channel->plain + at, channel->plain_length);
    }
    channel->in_length -= done;
    memmove(channel->in, channel->in + done, channel->in_length);
}

static int cubic_socket(void)
{
    int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    checked(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5), "cubic");
    return fd;
}

static struct channel *new_channel(int fd)
{
    struct channel *channel = calloc(1, sizeof *channel);
    int no_delay = !nagle;
    channel->fd = fd;
    checked(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay), "TCP_NODELAY");
    return channel;
}

static struct sockaddr_in address(int host)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9001)};
    address.sin_addr.s_addr = htonl(0x0a090001 + host);
    return address;
}

static void set_up(int host)
{
    char command[512];
    struct ifreq request = {.ifr_name = "tun0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    checked(unshare(CLONE_NEWNET), "network namespace");
    tun[host] = checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK), "/dev/net/tun");
    checked(ioctl(tun[host], TUNSETIFF, &request), "TUNSETIFF");
    snprintf(command, sizeof command,
             "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && ip addr add 10.9.0.%d/24 dev tun0 &&"
             "ip link set tun0 mtu 1500 txqueuelen 2000 up && tc qdisc add dev tun0 root tbf rate %.0fmbit burst 3100 limit 4000000",
             host + 1, up[host]);
    if (system(command) != 0)
        exit(1);
}

static void *run_host(void *argument)
{
    int host = (int)(intptr_t)argument, listener = -1;
    struct sockaddr_in own = address(host), next = address(host + 1);
    struct channel *channels[2];
    int count = 0;
    set_up(host);
    if (host > CLIENT) {
        listener = cubic_socket();
        checked(bind(listener, (void *)&own, sizeof own), "bind");
        checked(listen(listener, 1), "listen");
    }
    pthread_barrier_wait(&ready);
    if (host < EXIT) {
        int fd = cubic_socket();
        checked(connect(fd, (void *)&next, sizeof next), "connect");
        channels[count++] = new_channel(fd);
    }
    if (host > CLIENT)
        channels[count++] = new_channel(checked(accept(listener, NULL, NULL), "accept"));
    real_time(50);
    for (int64_t last_run = 0;;) {
        for (; host == EXIT && in_flight < window_cells; in_flight++)
            push(channels[0], DATA);
        int pending = 0;
        int64_t wait = 20000000;
        for (int index = 0; index < count; index++)
            pending |= queued(channels[index]) > 0;
        if (pending && (!kist || now() - last_run >= KIST_INTERVAL)) {
            for (int index = 0; index < count; index++)
                if (queued(channels[index]))
                    schedule(channels[index]);
            last_run = now();
            // What did not fit waits for the next run, or for room in the socket.
        }
        struct pollfd waits[2];
        for (int index = 0; index < count; index++) {
            int writes = channels[index]->outbuf_length + channels[index]->unsent_length > 0;
            waits[index] = (struct pollfd){channels[index]->fd, POLLIN | (writes ? POLLOUT : 0), 0};
        }
        if (pending && kist)
            wait = last_run + KIST_INTERVAL - now();
        struct timespec timeout = {0, wait > 0 ? wait : 0};
        if (ppoll(waits, count, &timeout, NULL) <= 0)
            continue;
        for (int index = 0; index < count; index++) {
            if (waits[index].revents & POLLOUT)
                write_out(channels[index]);
            if (waits[index].revents & POLLIN)
                read_in(host, channels[index], channels[count - 1 - index]);
        }
    }
    return NULL;
}

int main(int count, char **values)
{
    if (count != 6) {
        fprintf(stderr, "usage: chain nagle(0|1) kist(0|1) window-cells guard-downlink-mbit seconds\n");
        return 1;
    }
    nagle = atoi(values[1]);
    kist = atoi(values[2]);
    window_cells = atoi(values[3]);
    down[GUARD] = atof(values[4]);
    pthread_barrier_init(&ready, NULL, HOSTS + 1);
    pthread_t thread;
    for (int host = 0; host < HOSTS; host++)
        pthread_create(&thread, NULL, run_host, (void *)(intptr_t)host);
    pthread_create(&thread, NULL, internet, NULL);
    sleep(4);
    int64_t cells = delivered, begin = now();
    sleep(atoi(values[5]));
    cells = delivered - cells;
    printf("%d\t%d\t%d\t%.0f\t%.0f\n", nagle, kist, window_cells, down[GUARD], cells * 1e9 / (now() - begin));
    return 0;
}
