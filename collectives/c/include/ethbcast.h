/*
 * libethbcast: communicators, sessions and plans for C. docs/c.md says how to begin.
 *
 * Pointers are null or point to as many bytes as stated; texts end with a zero byte and are UTF-8. Every function that
 * returns an ethbcast_status has put the reason of a failure into ethbcast_error_message().
 */

#ifndef ETHBCAST_H
#define ETHBCAST_H

/* Made from collectives/c/src by cbindgen: change it there. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 The result of a call. Up to 5 the numbers are the exit codes of the program ethbcast.
 */
typedef enum {
  /*
   Success.
   */
  ETHBCAST_STATUS_OK = 0,
  /*
   Some receivers lack the bytes, or the group's work has failed at others.
   */
  ETHBCAST_STATUS_SOME_FAILED = 1,
  /*
   An argument, a file or an option is invalid, or contradicts that of other hosts.
   */
  ETHBCAST_STATUS_USAGE = 2,
  /*
   Timed out: nobody was there, some did not come, or the time was up.
   */
  ETHBCAST_STATUS_NOBODY = 3,
  /*
   The system: interface, permission, memory, a file.
   */
  ETHBCAST_STATUS_SYSTEM = 4,
  /*
   The bytes are not the sender's.
   */
  ETHBCAST_STATUS_INTEGRITY = 5,
  /*
   The ranks' calls differ.
   */
  ETHBCAST_STATUS_MISMATCH = 6,
  /*
   A rank is silent, cut off or has left.
   */
  ETHBCAST_STATUS_GONE = 7,
  /*
   A message, or a text, is longer than the buffer for it.
   */
  ETHBCAST_STATUS_TOO_LONG = 8,
  /*
   The call was interrupted.
   */
  ETHBCAST_STATUS_CANCELLED = 9,
  /*
   A fault of this library: please report it.
   */
  ETHBCAST_STATUS_INTERNAL = 10,
} ethbcast_status;

/*
 A group of ranks that call each other. Its functions may be called by several threads at once:
 messages run concurrently, collectives one after the other.
 */
typedef struct ethbcast_communicator ethbcast_communicator;

/*
 Options for joining, sending and receiving. The defaults suit one Ethernet interface and hosts
 with different names. Calls copy them.
 */
typedef struct ethbcast_options ethbcast_options;

/*
 A plan: who sends to whom. A rank is a host's number in the topology.
 */
typedef struct ethbcast_plan ethbcast_plan;

/*
 A tree of switches with hosts.
 */
typedef struct ethbcast_topology ethbcast_topology;

/*
 Route chosen for a broadcast.
 */
typedef struct {
  /*
   Name of the route, such as "cast" or "chain", with a zero byte at its end.
   */
  char via[32];
  /*
   The length of a segment in bytes.
   */
  uint64_t segment_bytes;
  /*
   Predicted time in seconds.
   */
  double predicted_seconds;
} ethbcast_choice_made;

/*
 The result of a session.
 */
typedef struct {
  /*
   Bytes that were sent or received.
   */
  uint64_t bytes;
  /*
   Seconds from the first data frame to the last verdict.
   */
  double seconds;
  /*
   BLAKE3 digest of the bytes.
   */
  uint8_t blake3[32];
  /*
   At a sender: number of receivers that have verified the bytes.
   */
  uint32_t receivers;
  /*
   At a sender: number of hosts of other networks that have verified them, behind relays.
   */
  uint32_t behind;
  /*
   Bytes that travelled to all, with hash lists: fewer than `bytes` where receivers had an
   earlier version, with the option delta.
   */
  uint64_t travelled;
} ethbcast_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Joins `group` and waits until all `size` ranks are there; ranks are in the natural order of the
 hosts' names. Needs root or CAP_NET_RAW. `options` may be null. Leave with ethbcast_leave.
 */
ethbcast_status ethbcast_join(const char *group,
                              uint16_t size,
                              const ethbcast_options *options,
                              ethbcast_communicator **communicator);

/*
 Shrinks the group to the ranks that live, after others died or left (ULFM's MPIX_Comm_shrink):
 all that live call it, within the option call-within, and have new ranks and a new size then, in
 the old order. Messages that were under way are dropped, and names of hosts that were returned
 before are no longer there. While other threads call the communicator it is refused. After a
 failure it is as before.
 */
ethbcast_status ethbcast_shrink(ethbcast_communicator *communicator);

/*
 Leaves the group and frees the communicator; null is allowed. Calls of other threads end with
 ETHBCAST_STATUS_USAGE. Frames that other ranks still need are sent, for a second at most: end
 with a barrier. In a forked child it only frees the child's copy, and returns
 ETHBCAST_STATUS_USAGE, as every other call of the parent's communicator does there.
 */
ethbcast_status ethbcast_leave(ethbcast_communicator *communicator);

/*
 This process's rank; 0 for null.
 */
uint16_t ethbcast_rank(const ethbcast_communicator *communicator);

/*
 Returns the number of ranks; 0 for null.
 */
uint16_t ethbcast_size(const ethbcast_communicator *communicator);

/*
 The name of a rank's host, until the communicator shrinks or is freed; null if there is no such
 rank.
 */
const char *ethbcast_host(const ethbcast_communicator *communicator, uint16_t rank);

/*
 Copies the root's buffer into the buffers of all ranks. At the root it returns when the bytes
 have been handed over to be sent, elsewhere when they have arrived. All ranks pass the same root
 and length.
 */
ethbcast_status ethbcast_broadcast(const ethbcast_communicator *communicator,
                                   uint16_t root,
                                   void *buffer,
                                   size_t length);

/*
 Waits until every rank has called it.
 */
ethbcast_status ethbcast_barrier(const ethbcast_communicator *communicator);

/*
 Copies block r of the root's `blocks` into rank r's `own`, of `length` bytes each. `blocks`
 matters at the root only.
 */
ethbcast_status ethbcast_scatter(const ethbcast_communicator *communicator,
                                 uint16_t root,
                                 const void *blocks,
                                 void *own,
                                 size_t length);

/*
 Copies every rank's `own` block, of `length` bytes each, into the root's `blocks`, in the order
 of ranks. `blocks` matters at the root only.
 */
ethbcast_status ethbcast_gather(const ethbcast_communicator *communicator,
                                uint16_t root,
                                const void *own,
                                void *blocks,
                                size_t length);

/*
 Copies every rank's `own` block, of `length` bytes each, into every rank's `blocks`, in the
 order of ranks.
 */
ethbcast_status ethbcast_allgather(const ethbcast_communicator *communicator,
                                   const void *own,
                                   void *blocks,
                                   size_t length);

/*
 Combines the numbers of all ranks' buffers by `function` ("sum", "min", "max"), in place at the
 root; the others' are only read. Their type is one of "i8", "i16", "i32", "i64", "u8" to "u64",
 "f32" and "f64". All ranks pass the same function, type, root and length.
 */
ethbcast_status ethbcast_reduce(const ethbcast_communicator *communicator,
                                uint16_t root,
                                const char *function,
                                const char *type_name,
                                void *buffer,
                                size_t length);

/*
 Combines the numbers of all ranks' buffers as ethbcast_reduce does, in place at all ranks, which
 have the same bits then.
 */
ethbcast_status ethbcast_allreduce(const ethbcast_communicator *communicator,
                                   const char *function,
                                   const char *type_name,
                                   void *buffer,
                                   size_t length);

/*
 Sends a message to rank `to` under a tag below 2147483648, within `within_seconds`; a negative
 time stands for the option call-within. It returns when the bytes have been handed to the
 network: a short message at once, a long one when the other rank receives it.
 */
ethbcast_status ethbcast_send(const ethbcast_communicator *communicator,
                              uint16_t to,
                              uint32_t tag,
                              const void *data,
                              size_t length,
                              double within_seconds);

/*
 Receives the next message of `tag` from rank `from` into a buffer, within `within_seconds`; a
 negative time stands for the option call-within. `received`, unless null, gets its length.
 */
ethbcast_status ethbcast_recv(const ethbcast_communicator *communicator,
                              uint16_t from,
                              uint32_t tag,
                              void *buffer,
                              size_t length,
                              size_t *received,
                              double within_seconds);

/*
 Returns the route of a broadcast of `bytes` from `root`, which is equal on all ranks.
 */
ethbcast_status ethbcast_choice(const ethbcast_communicator *communicator,
                                uint16_t root,
                                size_t length,
                                ethbcast_choice_made *choice);

/*
 Reads a topology: ethbcast's own file, Slurm's topology.conf or topology.yaml, a folder of LLDP
 outputs, or the name of a test bed. Free it with ethbcast_topology_free.
 */
ethbcast_status ethbcast_topology_load(const char *path, ethbcast_topology **topology);

/*
 Frees a topology; null is allowed, and one that is freed is left alone.
 */
void ethbcast_topology_free(ethbcast_topology *topology);

/*
 Returns the number of hosts; 0 for null.
 */
size_t ethbcast_topology_hosts(const ethbcast_topology *topology);

/*
 The name of a host, as long as the topology is there; null if there is no such host.
 */
const char *ethbcast_topology_host(const ethbcast_topology *topology, size_t host);

/*
 Plans a broadcast over all hosts of a topology: `via` is chain, binary, kary=K, cast and so on,
 `root` the name of a host. Free it with ethbcast_plan_free.
 */
ethbcast_status ethbcast_plan_make(const ethbcast_topology *topology,
                                   const char *via,
                                   const char *root,
                                   ethbcast_plan **plan);

/*
 Frees a plan; null is allowed, and one that is freed is left alone.
 */
void ethbcast_plan_free(ethbcast_plan *plan);

/*
 Returns the parent of a rank; -1 for the root, for null and if there is no such rank.
 */
int64_t ethbcast_plan_parent(const ethbcast_plan *plan, size_t rank);

/*
 Returns the number of children of a rank, which `child` lists in order; 0 for null and if there
 is no such rank.
 */
size_t ethbcast_plan_children(const ethbcast_plan *plan, size_t rank);

/*
 One of the ranks that a rank sends to; -1 if there is none of that number.
 */
int64_t ethbcast_plan_child(const ethbcast_plan *plan, size_t rank, size_t number);

/*
 The most hops from the root to any rank; 0 for null.
 */
size_t ethbcast_plan_height(const ethbcast_plan *plan);

/*
 Whether no two senders compete for a cable in one direction, as an independent check finds;
 false for null.
 */
bool ethbcast_plan_is_contention_free(const ethbcast_plan *plan);

/*
 Sends the content of a file descriptor, from its present position on, to the receivers of
 `group`, and returns when all of them have verified it. The descriptor stays open. `options`
 says for whom to wait (receivers, min-receivers or hosts); `report` may be null.
 */
ethbcast_status ethbcast_send_fd(const char *group,
                                 int descriptor,
                                 const ethbcast_options *options,
                                 ethbcast_report *report);

/*
 Sends a buffer, like `ethbcast_send_fd`.
 */
ethbcast_status ethbcast_send_buffer(const char *group,
                                     const void *data,
                                     size_t length,
                                     const ethbcast_options *options,
                                     ethbcast_report *report);

/*
 Receives the bytes sent to `group` and writes them to a file descriptor as they come; it stays
 open. Only ETHBCAST_STATUS_OK means that all bytes have arrived and are the sender's. `options`
 and `report` may be null.
 */
ethbcast_status ethbcast_receive_fd(const char *group,
                                    int descriptor,
                                    const ethbcast_options *options,
                                    ethbcast_report *report);

/*
 Receives into a buffer; a sender that has more bytes is refused. With the option delta the
 buffer holds an earlier version, of which only what has changed comes, in place.
 */
ethbcast_status ethbcast_receive_buffer(const char *group,
                                        void *buffer,
                                        size_t length,
                                        const ethbcast_options *options,
                                        ethbcast_report *report);

/*
 Makes a set of options. Free it with ethbcast_options_free.
 */
ethbcast_status ethbcast_options_new(ethbcast_options **options);

/*
 Frees a set of options; null is allowed, and one that is freed is left alone.
 */
void ethbcast_options_free(ethbcast_options *options);

/*
 Sets one of them, both texts. For all: interface (a name, a MAC or IP address, or a network such
 as 10.1.0.0/16), host, ether-type (hexadecimal), over (ethernet, udp, unicast), topology,
 calibration and plan (files), via (auto, chain, cast, binary, ...), preset (default, paper,
 push-pull), probe, unkeyed (true, false), mtu, priority (0 to 7), ttl, dead-after (seconds), key
 (a file, or auto: this host's), key-phrase. For communicators: join-within, call-within, spin
 (seconds), casts (true, false). For sessions: receivers, min-receivers, hosts (n[1-7] or ^FILE),
 max-wait, time-limit, patience, stall, sync-timeout, slow-after, carousel (seconds), on-slow (demote,
 wait, evict), rate (400mbit), chunk (16K to 128K), nice, greedy, late, once, delta (true,
 false), source (a description of the bytes, for receivers), sender (whom a receiver asks over
 unicast: an address or a name).
 */
ethbcast_status ethbcast_options_set(ethbcast_options *options,
                                     const char *name,
                                     const char *value);

/*
 Sets a callback for progress: the bytes that are there (at a sender, at the slowest receiver),
 and at a sender the slowest receiver's name, else null. It is called by the thread that runs the
 session, and must not block.
 */
ethbcast_status ethbcast_options_on_progress(ethbcast_options *options,
                                             void (*progress)(uint64_t bytes,
                                                              const char *slowest,
                                                              void *user),
                                             void *user);

/*
 Ends all sessions that were begun with these options, now and later, from any thread (but no
 signal handler): the other hosts are notified.
 */
ethbcast_status ethbcast_options_cancel(const ethbcast_options *options);

/*
 Returns the message of the last failed call in this thread: one sentence that says what to do,
 in UTF-8; empty if none has failed. It stays until the next failure in this thread.
 */
const char *ethbcast_error_message(void);

/*
 The name of a status, such as "nobody"; "unknown" for any other number.
 */
const char *ethbcast_status_name(int32_t status);

/*
 The library's version, such as "0.1.0".
 */
const char *ethbcast_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ETHBCAST_H */
