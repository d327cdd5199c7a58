/*
 * Sessions, plans and bad input, from C.
 *
 *     session send GROUP FILE        session send-buffer GROUP TEXT
 *     session receive GROUP FILE     session receive-buffer GROUP BYTES
 *     session alone                  needs no network
 */
#include <ethbcast.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUIRE(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, ethbcast_error_message()); \
            exit(99); \
        } \
    } while (0)

static void told(uint64_t bytes, const char *slowest, void *user)
{
    (void)slowest;
    *(uint64_t *)user = bytes;
}

static void *cancel_soon(void *options)
{
    usleep(200000);
    REQUIRE(ethbcast_options_cancel(options) == ETHBCAST_STATUS_OK);
    return NULL;
}

/* Where this host has a key, nobody speaks without one unless that is meant. */
static void keys(void)
{
    ethbcast_options *options = NULL;
    ethbcast_communicator *all = NULL;
    char byte = 0;
    REQUIRE(setenv("ETHBCAST_KEY_FILE", "/nonexistent", 1) == 0);
    REQUIRE(ethbcast_options_new(&options) == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_receive_fd("group", 1, NULL, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "E-UNKEYED: this host has a key ($ETHBCAST_KEY_FILE)") != NULL);
    REQUIRE(strstr(ethbcast_error_message(), "with the option key, or set the option unkeyed") != NULL);
    REQUIRE(ethbcast_send_buffer("group", &byte, 1, options, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "E-UNKEYED") != NULL);
    REQUIRE(ethbcast_join("group", 2, NULL, &all) == ETHBCAST_STATUS_USAGE && all == NULL);
    REQUIRE(strstr(ethbcast_error_message(), "E-UNKEYED") != NULL);
    REQUIRE(ethbcast_options_set(options, "key", "auto") == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "/nonexistent: No such file") != NULL);
    REQUIRE(ethbcast_options_set(options, "interface", "nosuch") == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_options_set(options, "unkeyed", "true") == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_receive_fd("group", 1, options, NULL) == ETHBCAST_STATUS_SYSTEM);
    REQUIRE(ethbcast_join("group", 2, options, &all) == ETHBCAST_STATUS_SYSTEM && all == NULL);
    ethbcast_options_free(options);
    REQUIRE(unsetenv("ETHBCAST_KEY_FILE") == 0);
}

/* What needs no network, and what can be wrong. */
static int alone(void)
{
    ethbcast_options *options = NULL;
    ethbcast_communicator *all = NULL;
    REQUIRE(ethbcast_options_new(&options) == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_options_new(NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, "colour", "red") == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "no option colour") != NULL);
    REQUIRE(ethbcast_options_set(options, "join-within", "soon") == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, "join-within", "-1") == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, NULL, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(NULL, "host", "n0") == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, "topology", "/nonexistent") == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, "hosts", "n1,^/nonexistent") == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "cannot read the list of hosts /nonexistent") != NULL);
    REQUIRE(ethbcast_options_set(options, "hosts", "n1,@rack") == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "a file of them with ^FILE") != NULL);
    REQUIRE(ethbcast_join(NULL, 2, NULL, &all) == ETHBCAST_STATUS_USAGE && all == NULL);
    REQUIRE(ethbcast_join("group", 2, NULL, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_options_set(options, "interface", "nosuch") == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_join("group", 2, options, &all) == ETHBCAST_STATUS_SYSTEM && all == NULL);
    REQUIRE(strstr(ethbcast_error_message(), "no interface nosuch") != NULL);
    REQUIRE(ethbcast_options_set(options, "receivers", "2") == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_join("group", 2, options, &all) == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "receivers is for sending") != NULL);
    REQUIRE(ethbcast_broadcast(NULL, 0, NULL, 0) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_barrier(NULL) == ETHBCAST_STATUS_USAGE && ethbcast_shrink(NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_leave(NULL) == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_send_fd("group", -1, NULL, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_send_fd("group", 9999, NULL, NULL) == ETHBCAST_STATUS_SYSTEM);
    REQUIRE(ethbcast_send_buffer("group", NULL, 1, NULL, NULL) == ETHBCAST_STATUS_USAGE);
    keys();
    REQUIRE(strcmp(ethbcast_status_name(ETHBCAST_STATUS_GONE), "gone") == 0);
    REQUIRE(strcmp(ethbcast_status_name(-1), "unknown") == 0 && strlen(ethbcast_version()) > 0);
    ethbcast_options_free(options);
    /* A freed set of options is refused, whatever is in its memory now. */
    REQUIRE(ethbcast_options_set(options, "host", "n0") == ETHBCAST_STATUS_USAGE);
    REQUIRE(strstr(ethbcast_error_message(), "the set of options is none: it was freed") != NULL);
    REQUIRE(ethbcast_options_cancel(options) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_receive_fd("group", 1, options, NULL) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_barrier((ethbcast_communicator *)options) == ETHBCAST_STATUS_USAGE);
    ethbcast_options_free(options);

    ethbcast_topology *topology = NULL;
    ethbcast_plan *plan = NULL;
    REQUIRE(ethbcast_topology_load("fig9-1", &topology) == ETHBCAST_STATUS_OK);
    size_t hosts = ethbcast_topology_hosts(topology);
    REQUIRE(hosts > 2 && ethbcast_topology_host(topology, hosts) == NULL);
    const char *root = ethbcast_topology_host(topology, 0);
    REQUIRE(ethbcast_plan_make(topology, "zigzag", root, &plan) == ETHBCAST_STATUS_USAGE && plan == NULL);
    REQUIRE(ethbcast_plan_make(topology, "chain", "nobody", &plan) == ETHBCAST_STATUS_USAGE);
    REQUIRE(ethbcast_plan_make(topology, "chain", root, &plan) == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_plan_height(plan) == hosts - 1 && ethbcast_plan_is_contention_free(plan));
    REQUIRE(ethbcast_plan_parent(plan, 0) == -1 && ethbcast_plan_children(plan, 0) == 1);
    REQUIRE(ethbcast_plan_parent(plan, (size_t)ethbcast_plan_child(plan, 0, 0)) == 0);
    REQUIRE(ethbcast_plan_child(plan, 0, 1) == -1 && ethbcast_plan_parent(plan, hosts) == -1);
    ethbcast_plan_free(plan);
    ethbcast_topology_free(topology);
    REQUIRE(ethbcast_plan_height(plan) == 0 && ethbcast_plan_parent(plan, 1) == -1);
    REQUIRE(ethbcast_topology_hosts(topology) == 0 && ethbcast_topology_host(topology, 0) == NULL);
    REQUIRE(ethbcast_plan_make(topology, "chain", "n0", &plan) == ETHBCAST_STATUS_USAGE);
    ethbcast_plan_free((ethbcast_plan *)topology);
    ethbcast_topology_free(topology);
    printf("%zu hosts planned\n", hosts);
    return 0;
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "alone") == 0)
        return alone();
    REQUIRE(count == 4);
    ethbcast_options *options = NULL;
    ethbcast_report report = {0};
    uint64_t moved = 0;
    ethbcast_status status;
    REQUIRE(ethbcast_options_new(&options) == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_options_set(options, "max-wait", "20") == ETHBCAST_STATUS_OK);
    REQUIRE(ethbcast_options_on_progress(options, told, &moved) == ETHBCAST_STATUS_OK);
    if (strncmp(words[2], "delta", 5) == 0)
        REQUIRE(ethbcast_options_set(options, "delta", "true") == ETHBCAST_STATUS_OK);
    if (strncmp(words[1], "send", 4) == 0)
        REQUIRE(ethbcast_options_set(options, "receivers", "2") == ETHBCAST_STATUS_OK);
    if (strcmp(words[1], "send") == 0) {
        int file = open(words[3], O_RDONLY);
        status = ethbcast_send_fd(words[2], file, options, &report);
        REQUIRE(close(file) == 0);
    } else if (strcmp(words[1], "send-buffer") == 0) {
        status = ethbcast_send_buffer(words[2], words[3], strlen(words[3]), options, &report);
    } else if (strcmp(words[1], "receive") == 0) {
        int file = open(words[3], O_WRONLY | O_CREAT | O_TRUNC, 0644);
        status = ethbcast_receive_fd(words[2], file, options, &report);
        REQUIRE(close(file) == 0);
    } else if (strcmp(words[1], "cancelled") == 0) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, cancel_soon, options) == 0);
        status = ethbcast_receive_fd(words[2], STDOUT_FILENO, options, &report);
        REQUIRE(pthread_join(thread, NULL) == 0 && status == ETHBCAST_STATUS_CANCELLED);
    } else {
        size_t room = strtoul(words[3], NULL, 10);
        char *buffer = calloc(1, room + 1);
        status = ethbcast_receive_buffer(words[2], buffer, room, options, &report);
        if (status == ETHBCAST_STATUS_OK)
            printf("%s\n", buffer);
        free(buffer);
    }
    ethbcast_options_free(options);
    if (status != ETHBCAST_STATUS_OK) {
        fprintf(stderr, "%s\n", ethbcast_error_message());
        return (int)status;
    }
    printf("%llu bytes, first of the digest %02x%02x, %u receivers, progress %s, %llu travelled\n",
           (unsigned long long)report.bytes, report.blake3[0], report.blake3[1], report.receivers,
           moved > 0 ? "told" : "not told", (unsigned long long)report.travelled);
    return 0;
}
