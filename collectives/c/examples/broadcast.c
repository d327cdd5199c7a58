/* Every rank receives a greeting from rank 0, and checks a message around the ring: broadcast RANKS. */
#include <ethbcast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ethbcast_status status, const char *what)
{
    if (status != ETHBCAST_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, ethbcast_error_message());
        exit((int)status);
    }
}

int main(int count, char **words)
{
    ethbcast_communicator *all = NULL;
    ethbcast_options *options = NULL;
    uint16_t size = (uint16_t)(count > 1 ? atoi(words[1]) : 0);
    check(ethbcast_options_new(&options), "options");
    check(ethbcast_options_set(options, "join-within", "20"), "join-within");
    check(ethbcast_join("greeting", size, options, &all), "join");
    ethbcast_options_free(options);

    uint16_t rank = ethbcast_rank(all);
    char greeting[16] = "";
    if (rank == 0)
        strcpy(greeting, "hello, cluster");
    check(ethbcast_broadcast(all, 0, greeting, sizeof greeting), "broadcast");

    /* One number goes around the ring and comes back to rank 0. */
    uint32_t token = 1;
    uint16_t next = (uint16_t)((rank + 1) % size), previous = (uint16_t)((rank + size - 1) % size);
    if (rank == 0)
        check(ethbcast_send(all, next, 7, &token, sizeof token, 5.0), "send");
    check(ethbcast_recv(all, previous, 7, &token, sizeof token, NULL, 5.0), "receive");
    token++;
    if (rank != 0)
        check(ethbcast_send(all, next, 7, &token, sizeof token, -1.0), "send");

    printf("rank %u of %u, %s: %s, token %u\n", rank, size, ethbcast_host(all, rank), greeting, token);
    check(ethbcast_barrier(all), "barrier");
    check(ethbcast_leave(all), "leave");
    return 0;
}
