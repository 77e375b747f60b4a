/* starling/peer.hpp for C, and for languages that call C. peer.hpp explains what a peer is and what
 * each call means; this file explains errors, memory and callbacks.
 *
 * Call every function on the thread that opened the peer, except starling_peer_leave and the two of
 * the last error. A call that fails returns a negative number, or NULL, and starling_last_error()
 * says why. Pointers in options are read only during the call; strings that a peer returns live
 * until it is closed. A child of fork() may only close its copy of a peer; the parent's peer
 * continues.
 *
 * Structs other than starling_options have no size in them and never change: later versions add
 * new functions instead. */
#ifndef STARLING_PEER_H
#define STARLING_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STARLING_EXPORT __attribute__((visibility("default")))

/* The kind of an error: starling::ErrorKind in its order, from -1 on, and a call out of turn. */
typedef enum {
  STARLING_INTERNAL = -1,
  STARLING_USAGE = -2,
  STARLING_RUN_FILE = -3,
  STARLING_DATA = -4,
  STARLING_UNREACHABLE = -5,
  STARLING_DIVERGED = -6,
  STARLING_DEVICE = -7,
  STARLING_NETWORK = -8,
  STARLING_OUT_OF_TURN = -9
} starling_status;

typedef struct starling_peer starling_peer;

typedef struct {
  const char* name;
  const uint32_t* shape; /* `rank` numbers */
  size_t rank;
} starling_tensor;

/* Called in starling_peer_next_step. Evaluates these parameters and buffers (counts as in the
 * options) on the first `samples` samples of data that is not trained on, or on all of them for 0.
 * Writes the accuracy from 0 to 1 (NaN: there is none), and the loss in nats a label. A loss that
 * is not finite ends the peer with STARLING_DIVERGED. Returns 0. Anything else: the evaluation
 * failed, which makes starling_peer_next_step return STARLING_INTERNAL; the caller knows why. */
typedef int (*starling_evaluate)(void* context, const float* parameters, const float* buffers,
                                 uint32_t samples, double* accuracy, double* loss);

/* Begin with starling_options_init; run_file, parameters, parameter_count and samples must be set.
 * Later versions add fields at the end: a program that was compiled before that has a smaller
 * struct_size, and gets the defaults of these fields. */
typedef struct {
  size_t struct_size; /* of these options, as the program knows them */
  const char* run_file;
  const char* const* set; /* the last one is NULL; NULL: none */
  const float* parameters;
  size_t parameter_count;
  const starling_tensor* tensors; /* `tensor_count`; NULL: one */
  size_t tensor_count;
  const starling_tensor* buffers; /* `buffer_count` */
  const float* buffer_values;     /* one buffer after the other, `buffer_value_count` in all */
  size_t buffer_value_count;
  const int* buffer_never_negative; /* for each buffer; NULL: all may be negative */
  size_t buffer_count;
  uint32_t samples;
  const char* dataset;        /* NULL: "" */
  starling_evaluate evaluate; /* or NULL */
  void* context;              /* passed to `evaluate` */
  const char* const* join;    /* the last one is NULL; NULL: none */
  const char* listen;         /* NULL: "[::]:0" */
  const char* name;           /* NULL, or empty: the host's, with a number if others run there */
  const char* dir;            /* NULL, or empty: runs/<run name>/<peer name> */
  int lan;
  int require_peers;
  int quiet;                   /* no warnings on stderr */
  const char* proxy;           /* URL; NULL, or empty: as the environment says */
  int no_port_mapping;         /* do not ask the router to let others in */
  const char* const* announce; /* where others reach the peer; the last one is NULL; NULL: none */
} starling_options;

/* All zeros, which are the defaults, and the size. */
static inline void starling_options_init(starling_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}

typedef struct {
  uint64_t number;
  float learning_rate;
  uint32_t sample_count;
  const uint32_t* samples; /* valid until the next call of starling_peer_next_step or _step_done */
} starling_step;

typedef struct {
  int left; /* before the run was over */
  uint64_t steps;
  uint64_t samples;
  uint64_t exchanges;
  uint64_t bytes_sent;
  uint64_t bytes_received;
} starling_summary;

/* A peer, which the caller closes; NULL: it cannot be opened. The peer then belongs to the calling
 * thread. */
STARLING_EXPORT starling_peer* starling_peer_open(const starling_options* options);
/* Ends the peer unless it has ended, and frees it and all that it has returned. NULL is allowed. */
STARLING_EXPORT void starling_peer_close(starling_peer* peer);

/* "ip:port" at which others reach it; the peer's. Never NULL. */
STARLING_EXPORT const char* starling_peer_address(const starling_peer* peer);
/* Its folder; the peer's. Never NULL. */
STARLING_EXPORT const char* starling_peer_dir(const starling_peer* peer);
/* 1: it continues from a checkpoint. 0: it starts anew. */
STARLING_EXPORT int starling_peer_resumed(const starling_peer* peer);

/* `parameter_count` numbers, the peer's, at the same place until it is closed. Never NULL. */
STARLING_EXPORT float* starling_peer_parameters(starling_peer* peer);
/* `buffer_value_count` numbers, under the same rules; NULL if there are none. */
STARLING_EXPORT float* starling_peer_buffers(starling_peer* peer);
/* Copies the replica to `out`, the caller's, which has room for `parameter_count` numbers. 0. */
STARLING_EXPORT int starling_peer_read(const starling_peer* peer, float* out);

/* 1: `step`, the caller's, is due, and its samples are the peer's. 0: the run has ended, or this
 * peer has left. Negative: the peer has failed, the last step is not done, or `evaluate` failed; in
 * the last case, the peer continues at the next call. */
STARLING_EXPORT int starling_peer_next_step(starling_peer* peer, starling_step* step);
/* 0. Negative: no step is under way. */
STARLING_EXPORT int starling_peer_step_done(starling_peer* peer, float loss);
/* Any thread, until starling_peer_close is called; not from a signal handler. */
STARLING_EXPORT void starling_peer_leave(starling_peer* peer);
/* Fills `summary`, the caller's. 0. Negative: the peer has not ended yet: starling_peer_next_step
 * has neither returned 0 nor failed, an evaluation's failure aside. */
STARLING_EXPORT int starling_peer_summary(const starling_peer* peer, starling_summary* summary);

/* The error of this thread's last failed call; the library's, valid until the thread's next failed
 * call. "" if none has failed. Any thread. */
STARLING_EXPORT const char* starling_last_error(void);
/* The kind of that error: a starling_status; 0 if no call has failed. Any thread. */
STARLING_EXPORT int starling_last_error_kind(void);

#ifdef __cplusplus
}
#endif

#endif
