/* Two ranks, the first of which forks between its calls: the child can do nothing in its name. Both leave while another
   thread waits. */
#include "ethbcast.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, ethbcast_error_message()); \
            exit(1); \
        } \
    } while (0)

static void refused(ethbcast_status status)
{
    REQUIRE(status == ETHBCAST_STATUS_USAGE && strstr(ethbcast_error_message(), "is a fork of process"));
}

static void child(ethbcast_communicator *ranks, size_t received)
{
    char bytes[100] = {0};
    ethbcast_choice_made choice;
    refused(ethbcast_broadcast(ranks, 0, bytes, sizeof bytes));
    refused(ethbcast_barrier(ranks));
    refused(ethbcast_send(ranks, 1, 1, bytes, sizeof bytes, 5));
    refused(ethbcast_recv(ranks, 1, 1, bytes, sizeof bytes, &received, 5));
    refused(ethbcast_choice(ranks, 0, 100, &choice));
    refused(ethbcast_leave(ranks));
    exit(0);
}

static void fork_here(ethbcast_communicator *ranks)
{
    int ended = 0;
    if (ethbcast_rank(ranks) != 0)
        return;
    pid_t id = fork();
    if (id == 0)
        child(ranks, 0);
    REQUIRE(waitpid(id, &ended, 0) == id && ended == 0);
}

static void *wait_for_nothing(void *ranks)
{
    char byte;
    ethbcast_status status = ethbcast_recv(ranks, (uint16_t)(1 - ethbcast_rank(ranks)), 9, &byte, 1, NULL, 60);
    REQUIRE(status == ETHBCAST_STATUS_USAGE || status == ETHBCAST_STATUS_GONE);
    return NULL;
}

int main(void)
{
    ethbcast_communicator *ranks;
    char bytes[100];
    REQUIRE(ethbcast_join("fork", 2, NULL, &ranks) == ETHBCAST_STATUS_OK);
    for (int point = 0; point < 20; point++) {
        int turn = point + 1;
        /* Before a broadcast, between it and a barrier, or behind both. */
        if (point % 3 == 0)
            fork_here(ranks);
        memset(bytes, ethbcast_rank(ranks) == 0 ? turn : 0, sizeof bytes);
        REQUIRE(ethbcast_broadcast(ranks, 0, bytes, sizeof bytes) == ETHBCAST_STATUS_OK);
        REQUIRE(bytes[0] == turn && bytes[99] == turn);
        if (point % 3 == 1)
            fork_here(ranks);
        REQUIRE(ethbcast_barrier(ranks) == ETHBCAST_STATUS_OK);
        if (point % 3 == 2)
            fork_here(ranks);
    }
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wait_for_nothing, ranks) == 0);
    usleep(200000);
    REQUIRE(ethbcast_leave(ranks) == ETHBCAST_STATUS_OK);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(ethbcast_barrier(ranks) == ETHBCAST_STATUS_USAGE && strstr(ethbcast_error_message(), "it was freed"));
    REQUIRE(ethbcast_leave(ranks) == ETHBCAST_STATUS_USAGE && ethbcast_size(ranks) == 0);
    printf("done\n");
    return 0;
}
