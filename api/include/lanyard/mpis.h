/* The MPIS_ names of an earlier prototype of stream-triggered MPI, over Lanyard: its programs build by including this
 * header instead of the prototype's, and by linking Lanyard. New programs use lanyard.h. C11 and C++17; header only.
 * What each name stands for is said below; api/doc/porting-mpis.md of Lanyard's sources has them side by side.
 *
 * Errors. Every function returns one of the four codes below. Before it returns another than MPIS_SUCCESS it has said
 * the reason on stderr, which four codes cannot, and MPI's error handler has been invoked with MPI's own code: that of
 * the request's communicator, or of MPI_COMM_WORLD, as lanyard.h says. MPI's default handler ends the job, as the
 * prototype's exceptions did, so that a program that never looks at codes does not go on with wrong data. A program
 * that looks sets MPI_ERRORS_RETURN.
 *
 * What is different, and better:
 *   - Any number of queues. Requests are matched without one, and belong to none but while a start is waited for.
 *   - A match has ended when it says so, fills its status, knows communicators apart, and may have wildcards.
 *   - State is checked: a start without a match, a second start without a wait, a second match are errors.
 *   - Failures of transfers are told, by MPIS_Queue_wait and MPIS_Queue_free.
 *   - MPIS_Queue_wait waits for starts whose wait was not enqueued as well, and counts as their wait.
 *   - MPIS_Queue_free waits for what is outstanding.
 *   - MPIS_Request_free of a request whose last start may not have completed is an error: MPIS_Queue_wait first.
 *   - A send no longer than the receive matches; a longer one is an error of both sides' match.
 * What is missing:
 *   - Allreduces of GPU memory, or with operations of the program's own: MPIS_UNSUPPORTED_BEHAVIOR of their match.
 *   - Counts beyond INT_MAX: MPIS_UNSUPPORTED_BEHAVIOR.
 *
 * Threads. As for lanyard.h, but the calls on one queue are for one thread at a time.
 *
 * On GPUs the program includes the runtime's header (cuda_runtime.h, hip/hip_runtime.h) before this one. */
#ifndef LANYARD_MPIS_H_
#define LANYARD_MPIS_H_

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lanyard/lanyard.h"

enum {
  MPIS_SUCCESS = 0,
  MPIS_NOT_READY = -1,             /* not yet: a deadline passed, or the object is in use; the call may be repeated */
  MPIS_INVALID_REQUEST_STATE = -2, /* a mistake in the call or before it, or a transfer that failed */
  MPIS_UNSUPPORTED_BEHAVIOR = -3   /* not done by Lanyard, this build of it, the card or the machine */
};

typedef enum MPIS_Queue_type {
  THREAD = 0,      /* a host stream that the queue owns; the address is not used and may be null */
  GPU_MEM_OPS = 3, /* a GPU's stream; address: cudaStream_t *, hipStream_t * */
  CXI = 4          /* the same: which network card it is says LANYARD_NIC, for Slingshot LANYARD_NIC=cxi */
} MPIS_Queue_type;

/* Whose streams GPU_MEM_OPS and CXI mean: those of the runtime that the program is compiled for. May be defined before
 * this header, where the program passes streams on without including the runtime. */
#ifndef LANYARD_MPIS_GPU_QUEUE
#if !defined(CUDART_VERSION) && (defined(__HIP_PLATFORM_AMD__) || defined(HIP_VERSION))
#define LANYARD_MPIS_GPU_QUEUE MPIX_QUEUE_HIP
#else
#define LANYARD_MPIS_GPU_QUEUE MPIX_QUEUE_CUDA
#endif
#endif

/* A queue and the requests that were started on it and not waited for: their handles, in an array that grows to the
 * most there ever were, so that nothing is allocated in a program's loop. The members may be used with lanyard.h, but
 * what is started by its functions MPIS_Enqueue_waitall knows nothing of. */
typedef struct MPIS_Queue_struct {
  MPIX_Queue queue;
  MPIX_Host_stream host_stream; /* THREAD: for MPIX_Host_stream_launch between transfers; else null */
  MPI_Request* started;
  int count;
  int capacity;
} * MPIS_Queue;
#define MPIS_QUEUE_NULL ((MPIS_Queue)0)

/* A persistent request, or a match request of MPIS_Imatch. The MPI's own handle may be used with lanyard.h. */
typedef struct MPIS_Request_struct {
  MPI_Request request;
  int is_match;
} * MPIS_Request;
#define MPIS_REQUEST_NULL ((MPIS_Request)0)

/* ---- Errors. Names in lanyard_mpis_ are this header's own. ---- */

static inline void lanyard_mpis_say(const char* call, const char* why) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "lanyard: rank %d: %s: %s\n", rank, call, why);
}

static inline int lanyard_mpis_is_running(void) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

/* A mistake that Lanyard has not been asked about. */
static inline int lanyard_mpis_refuse(const char* call, MPI_Comm communicator, int error_class, const char* why) {
  if (lanyard_mpis_is_running()) { /* else no handler may be invoked */
    lanyard_mpis_say(call, why);
    MPI_Comm_call_errhandler(communicator, error_class);
  } else {
    fprintf(stderr, "lanyard: %s: %s\n", call, why);
  }
  return error_class == MPI_ERR_UNSUPPORTED_OPERATION || error_class == MPI_ERR_NO_MEM ? MPIS_UNSUPPORTED_BEHAVIOR
                                                                                       : MPIS_INVALID_REQUEST_STATE;
}

/* The code for what MPI or Lanyard returned, after the handler's return. */
static inline int lanyard_mpis_code(const char* call, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length, error_class = MPI_ERR_OTHER;
  if (code == MPI_SUCCESS)
    return MPIS_SUCCESS;
  if (!lanyard_mpis_is_running()) /* nothing may be asked; Lanyard has said so */
    return MPIS_INVALID_REQUEST_STATE;
  if (MPI_Error_string(code, text, &length) == MPI_SUCCESS)
    lanyard_mpis_say(call, text);
  MPI_Error_class(code, &error_class);
  if (error_class == MPIX_ERR_STALLED || error_class == MPIX_ERR_BUSY)
    return MPIS_NOT_READY;
  if (error_class == MPI_ERR_UNSUPPORTED_OPERATION || error_class == MPI_ERR_NO_MEM || error_class == MPI_ERR_OP ||
      error_class == MPIX_ERR_NIC || error_class == MPIX_ERR_NO_ENTRIES)
    return MPIS_UNSUPPORTED_BEHAVIOR;
  return MPIS_INVALID_REQUEST_STATE;
}

static inline int lanyard_mpis_no_memory(const char* call) {
  return lanyard_mpis_refuse(call, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "no memory");
}

/* What a call takes: persistent requests; match requests, or null ones; anything. */
enum { LANYARD_MPIS_TRANSFERS, LANYARD_MPIS_MATCHES, LANYARD_MPIS_ANY };

static inline int lanyard_mpis_check(const char* call, int count, const MPIS_Request requests[], int takes) {
  char why[64];
  int i;
  if (count < 0 || (count > 0 && requests == NULL))
    return lanyard_mpis_refuse(call, MPI_COMM_WORLD, MPI_ERR_ARG, "a number of requests and an array are needed");
  for (i = 0; i < count && takes != LANYARD_MPIS_ANY; ++i) {
    const int is_null = requests[i] == MPIS_REQUEST_NULL;
    if (takes == LANYARD_MPIS_TRANSFERS && (is_null || requests[i]->is_match)) {
      snprintf(why, sizeof why, "request %d is %s", i, is_null ? "MPIS_REQUEST_NULL" : "a match request");
      return lanyard_mpis_refuse(call, MPI_COMM_WORLD, MPI_ERR_REQUEST, why);
    }
    if (takes == LANYARD_MPIS_MATCHES && !is_null && !requests[i]->is_match)
      return lanyard_mpis_refuse(call, MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION,
                                 "a transfer is waited for by its queue: MPIS_Enqueue_waitall, MPIS_Queue_wait");
  }
  return MPIS_SUCCESS;
}

static inline int lanyard_mpis_check_queue(const char* call, MPIS_Queue queue) {
  return queue != MPIS_QUEUE_NULL ? MPIS_SUCCESS
                                  : lanyard_mpis_refuse(call, MPI_COMM_WORLD, MPIX_ERR_QUEUE, "MPIS_QUEUE_NULL");
}

/* ---- Queues ---- */

/* As MPIX_Queue_init. *queue is MPIS_QUEUE_NULL where it fails. */
static inline int MPIS_Queue_init(MPIS_Queue* queue, MPIS_Queue_type type, void* stream_address) {
  MPIS_Queue made;
  int code = MPI_SUCCESS;
  if (queue == NULL)
    return lanyard_mpis_refuse("MPIS_Queue_init", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  *queue = MPIS_QUEUE_NULL;
  if (type != THREAD && type != GPU_MEM_OPS && type != CXI)
    return lanyard_mpis_refuse("MPIS_Queue_init", MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION,
                               "the types of queues are THREAD, GPU_MEM_OPS and CXI");
  made = (MPIS_Queue)calloc(1, sizeof *made);
  if (made == NULL)
    return lanyard_mpis_no_memory("MPIS_Queue_init");
  /* The prototype ignored the address of a THREAD queue, and its programs pass that of whatever stream they have. */
  if (type == THREAD) {
    code = MPIX_Host_stream_create(&made->host_stream);
    stream_address = &made->host_stream;
  }
  if (code == MPI_SUCCESS)
    code = MPIX_Queue_init(&made->queue, type == THREAD ? MPIX_QUEUE_HOST : LANYARD_MPIS_GPU_QUEUE, stream_address);
  if (code != MPI_SUCCESS) {
    if (made->host_stream != MPIX_HOST_STREAM_NULL)
      MPIX_Host_stream_free(&made->host_stream);
    free(made);
    return lanyard_mpis_code("MPIS_Queue_init", code);
  }
  *queue = made;
  return MPIS_SUCCESS;
}

static inline int lanyard_mpis_waitall(const char* call, MPIS_Queue queue) {
  const int code = queue->count == 0 ? MPI_SUCCESS : MPIX_Enqueue_waitall(queue->queue, queue->count, queue->started);
  if (code == MPI_SUCCESS)
    queue->count = 0;
  return lanyard_mpis_code(call, code);
}

/* Blocks until all that was enqueued is done, starts without a wait included: these have been waited for then, and the
 * requests may be started again or freed. Tells of failures as MPIX_Queue_wait does. */
static inline int MPIS_Queue_wait(MPIS_Queue queue) {
  int code = lanyard_mpis_check_queue("MPIS_Queue_wait", queue);
  if (code == MPIS_SUCCESS)
    code = lanyard_mpis_waitall("MPIS_Queue_wait", queue);
  return code != MPIS_SUCCESS ? code : lanyard_mpis_code("MPIS_Queue_wait", MPIX_Queue_wait(queue->queue));
}

/* Waits as MPIS_Queue_wait, frees the queue, sets *queue to MPIS_QUEUE_NULL. Nothing to do where it is that already. */
static inline int MPIS_Queue_free(MPIS_Queue* queue) {
  int code;
  if (queue == NULL || *queue == MPIS_QUEUE_NULL)
    return MPIS_SUCCESS;
  code = lanyard_mpis_waitall("MPIS_Queue_free", *queue);
  if (code == MPIS_SUCCESS)
    code = lanyard_mpis_code("MPIS_Queue_free", MPIX_Queue_free(&(*queue)->queue));
  if (code != MPIS_SUCCESS)
    return code;
  if ((*queue)->host_stream != MPIX_HOST_STREAM_NULL)
    code = lanyard_mpis_code("MPIS_Queue_free", MPIX_Host_stream_free(&(*queue)->host_stream));
  free((*queue)->started);
  free(*queue);
  *queue = MPIS_QUEUE_NULL;
  return code;
}

/* ---- Starts and waits ---- */

static inline int lanyard_mpis_startall(const char* call, MPIS_Queue queue, int count, MPIS_Request requests[]) {
  int i, code = lanyard_mpis_check_queue(call, queue);
  if (code == MPIS_SUCCESS)
    code = lanyard_mpis_check(call, count, requests, LANYARD_MPIS_TRANSFERS);
  if (code != MPIS_SUCCESS)
    return code;
  /* Room first: once the requests are started, they must be remembered. */
  if (count > queue->capacity - queue->count) {
    const size_t capacity = 2 * ((size_t)queue->count + (size_t)count);
    MPI_Request* more =
        capacity > INT_MAX ? NULL : (MPI_Request*)realloc(queue->started, capacity * sizeof(MPI_Request));
    if (more == NULL)
      return lanyard_mpis_no_memory(call);
    queue->started = more;
    queue->capacity = (int)capacity;
  }
  for (i = 0; i < count; ++i)
    queue->started[queue->count + i] = requests[i]->request;
  code = count == 0 ? MPI_SUCCESS : MPIX_Enqueue_startall(queue->queue, count, queue->started + queue->count);
  if (code == MPI_SUCCESS)
    queue->count += count;
  return lanyard_mpis_code(call, code);
}

/* As MPIX_Enqueue_startall. */
static inline int MPIS_Enqueue_startall(MPIS_Queue queue, int count, MPIS_Request requests[]) {
  return lanyard_mpis_startall("MPIS_Enqueue_startall", queue, count, requests);
}

/* As MPIX_Enqueue_start. */
static inline int MPIS_Enqueue_start(MPIS_Queue queue, MPIS_Request* request) {
  return lanyard_mpis_startall("MPIS_Enqueue_start", queue, 1, request);
}

/* The stream goes on when everything that was started on this queue and not yet waited for has completed. */
static inline int MPIS_Enqueue_waitall(MPIS_Queue queue) {
  const int code = lanyard_mpis_check_queue("MPIS_Enqueue_waitall", queue);
  return code != MPIS_SUCCESS ? code : lanyard_mpis_waitall("MPIS_Enqueue_waitall", queue);
}

/* ---- Matching ---- */

/* As MPIX_Matchall; statuses may be null or MPI_STATUSES_IGNORE. */
static inline int MPIS_Matchall(int count, MPIS_Request requests[], MPI_Status* statuses) {
  MPI_Request* handles;
  MPI_Status* own;
  int i, error_class, code = lanyard_mpis_check("MPIS_Matchall", count, requests, LANYARD_MPIS_TRANSFERS);
  if (code != MPIS_SUCCESS || count == 0)
    return code;
  handles = (MPI_Request*)malloc((size_t)count * sizeof *handles);
  own = (MPI_Status*)calloc((size_t)count, sizeof *own);
  if (handles == NULL || own == NULL) {
    free(handles);
    free(own);
    return lanyard_mpis_no_memory("MPIS_Matchall");
  }
  for (i = 0; i < count; ++i)
    handles[i] = requests[i]->request;
  code = MPIX_Matchall(count, handles, own);
  if (code != MPI_SUCCESS && lanyard_mpis_is_running()) {
    MPI_Error_class(code, &error_class);
    for (i = 0; error_class == MPI_ERR_IN_STATUS && i < count; ++i) /* the first one's own, which says more */
      if (own[i].MPI_ERROR != MPI_SUCCESS) {
        code = own[i].MPI_ERROR;
        break;
      }
  }
  if (statuses != NULL && statuses != MPI_STATUSES_IGNORE)
    memcpy(statuses, own, (size_t)count * sizeof *own);
  free(handles);
  free(own);
  return lanyard_mpis_code("MPIS_Matchall", code);
}

static inline int lanyard_mpis_match(const char* call, MPIS_Request* request, MPI_Status* status) {
  const int code = lanyard_mpis_check(call, 1, request, LANYARD_MPIS_TRANSFERS);
  return code != MPIS_SUCCESS
             ? code
             : lanyard_mpis_code(
                   call, MPIX_Match(&(*request)->request, status == NULL ? (MPI_Status*)MPI_STATUS_IGNORE : status));
}

/* As MPIX_Match. */
static inline int MPIS_Match(MPIS_Request* request, MPI_Status* status) {
  return lanyard_mpis_match("MPIS_Match", request, status);
}

/* As MPIS_Match: a match is for any queue. */
static inline int MPIS_Queue_match(MPIS_Queue queue, MPIS_Request* request, MPI_Status* status) {
  const int code = lanyard_mpis_check_queue("MPIS_Queue_match", queue);
  return code != MPIS_SUCCESS ? code : lanyard_mpis_match("MPIS_Queue_match", request, status);
}

/* As MPIX_Imatch; *match_request is for MPIS_Wait, MPIS_Waitall or MPIS_Request_free. */
static inline int MPIS_Imatch(MPIS_Request* request, MPIS_Request* match_request) {
  MPIS_Request made;
  int code = lanyard_mpis_check("MPIS_Imatch", 1, request, LANYARD_MPIS_TRANSFERS);
  if (code == MPIS_SUCCESS && match_request == NULL)
    code = lanyard_mpis_refuse("MPIS_Imatch", MPI_COMM_WORLD, MPI_ERR_ARG, "null pointer");
  if (code != MPIS_SUCCESS)
    return code;
  made = (MPIS_Request)malloc(sizeof *made);
  if (made == NULL)
    return lanyard_mpis_no_memory("MPIS_Imatch");
  made->is_match = 1;
  code = MPIX_Imatch(&(*request)->request, &made->request);
  if (code == MPI_SUCCESS)
    *match_request = made;
  else
    free(made);
  return lanyard_mpis_code("MPIS_Imatch", code);
}

/* As MPIX_Is_matched. */
static inline int MPIS_Is_matched(MPIS_Request* request, int* flag) {
  const int code = lanyard_mpis_check("MPIS_Is_matched", 1, request, LANYARD_MPIS_TRANSFERS);
  return code != MPIS_SUCCESS ? code : lanyard_mpis_code("MPIS_Is_matched", MPIX_Is_matched((*request)->request, flag));
}

static inline int lanyard_mpis_wait(const char* call, MPIS_Request* request, MPI_Status* status) {
  MPI_Request none = MPI_REQUEST_NULL;
  const int is_null = *request == MPIS_REQUEST_NULL;
  const int code = MPI_Wait(is_null ? &none : &(*request)->request, status);
  if (!is_null && (*request)->request == MPI_REQUEST_NULL) { /* complete, though the match may have failed */
    free(*request);
    *request = MPIS_REQUEST_NULL;
  }
  return lanyard_mpis_code(call, code);
}

/* Blocks until a match request of MPIS_Imatch has ended, and frees it. status may be null or MPI_STATUS_IGNORE. Other
 * requests, which the prototype refused as well: MPIS_UNSUPPORTED_BEHAVIOR. */
static inline int MPIS_Wait(MPIS_Request* request, MPI_Status* status) {
  const int code = lanyard_mpis_check("MPIS_Wait", 1, request, LANYARD_MPIS_MATCHES);
  return code != MPIS_SUCCESS
             ? code
             : lanyard_mpis_wait("MPIS_Wait", request, status == NULL ? (MPI_Status*)MPI_STATUS_IGNORE : status);
}

/* As MPIS_Wait on each, whatever the others come to; returns the first error. */
static inline int MPIS_Waitall(int count, MPIS_Request requests[], MPI_Status* statuses) {
  const int ignored = statuses == NULL || statuses == MPI_STATUSES_IGNORE;
  int i, code, first = lanyard_mpis_check("MPIS_Waitall", count, requests, LANYARD_MPIS_MATCHES);
  if (first != MPIS_SUCCESS)
    return first;
  for (i = 0; i < count; ++i) {
    code = lanyard_mpis_wait("MPIS_Waitall", &requests[i], ignored ? (MPI_Status*)MPI_STATUS_IGNORE : &statuses[i]);
    if (first == MPIS_SUCCESS)
      first = code;
  }
  return first;
}

/* ---- Requests. The info objects are not used: Lanyard finds out by itself whose memory a buffer is. ---- */

/* An empty persistent request in *request, or MPIS_REQUEST_NULL. */
static inline int lanyard_mpis_make(const char* call, MPI_Comm communicator, MPIS_Request* request) {
  if (request == NULL)
    return lanyard_mpis_refuse(call, communicator, MPI_ERR_ARG, "null pointer");
  *request = (MPIS_Request)malloc(sizeof **request);
  if (*request == MPIS_REQUEST_NULL)
    return lanyard_mpis_no_memory(call);
  (*request)->is_match = 0;
  return MPIS_SUCCESS;
}

/* What making its MPI request came to: where that failed there is none. */
static inline int lanyard_mpis_made(const char* call, int code, MPIS_Request* request) {
  if (code != MPI_SUCCESS) {
    free(*request);
    *request = MPIS_REQUEST_NULL;
  }
  return lanyard_mpis_code(call, code);
}

enum { LANYARD_MPIS_SEND, LANYARD_MPIS_RSEND, LANYARD_MPIS_RECV };

static inline int lanyard_mpis_init(const char* call, int kind, void* buffer, MPI_Count count, MPI_Datatype datatype,
                                    int peer, int tag, MPI_Comm communicator, MPIS_Request* request) {
  MPI_Request* made;
  int code;
  if (request != NULL)
    *request = MPIS_REQUEST_NULL;
  if (count > INT_MAX)
    return lanyard_mpis_refuse(call, communicator, MPI_ERR_UNSUPPORTED_OPERATION,
                               "counts go to INT_MAX: use a contiguous datatype of several elements");
  code = lanyard_mpis_make(call, communicator, request);
  if (code != MPIS_SUCCESS)
    return code;
  made = &(*request)->request;
  if (kind == LANYARD_MPIS_SEND)
    code = MPI_Send_init(buffer, (int)count, datatype, peer, tag, communicator, made);
  else if (kind == LANYARD_MPIS_RSEND)
    code = MPI_Rsend_init(buffer, (int)count, datatype, peer, tag, communicator, made);
  else
    code = MPI_Recv_init(buffer, (int)count, datatype, peer, tag, communicator, made);
  return lanyard_mpis_made(call, code, request);
}

static inline int MPIS_Send_init(const void* buffer, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                                 MPI_Comm communicator, MPI_Info info, MPIS_Request* request) {
  (void)info;
  return lanyard_mpis_init("MPIS_Send_init", LANYARD_MPIS_SEND, (void*)buffer, count, datatype, peer, tag, communicator,
                           request);
}

/* The receive must have been started when the send starts: that is the program's promise, as of MPI_Rsend_init. */
static inline int MPIS_Rsend_init(const void* buffer, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                                  MPI_Comm communicator, MPI_Info info, MPIS_Request* request) {
  (void)info;
  return lanyard_mpis_init("MPIS_Rsend_init", LANYARD_MPIS_RSEND, (void*)buffer, count, datatype, peer, tag,
                           communicator, request);
}

static inline int MPIS_Recv_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int peer, int tag,
                                 MPI_Comm communicator, MPI_Info info, MPIS_Request* request) {
  (void)info;
  return lanyard_mpis_init("MPIS_Recv_init", LANYARD_MPIS_RECV, buffer, count, datatype, peer, tag, communicator,
                           request);
}

/* As MPIX_Barrier_init. Matched by all processes of the communicator, it is started and waited for like a transfer. */
static inline int MPIS_Barrier_init(MPI_Comm communicator, MPI_Info info, MPIS_Request* request) {
  int code = lanyard_mpis_make("MPIS_Barrier_init", communicator, request);
  if (code == MPIS_SUCCESS)
    code = lanyard_mpis_made("MPIS_Barrier_init", MPIX_Barrier_init(communicator, info, &(*request)->request), request);
  return code;
}

/* As MPIX_Allreduce_init. An operation that Lanyard does not combine is MPIS_UNSUPPORTED_BEHAVIOR of the
 * match, a datatype or a length MPIS_INVALID_REQUEST_STATE. */
static inline int MPIS_Allreduce_init(const void* in, void* out, int count, MPI_Datatype datatype, MPI_Op op,
                                      MPI_Comm communicator, MPI_Info info, MPIS_Request* request) {
  int code = lanyard_mpis_make("MPIS_Allreduce_init", communicator, request);
  if (code == MPIS_SUCCESS)
    code = lanyard_mpis_made(
        "MPIS_Allreduce_init",
        MPIX_Allreduce_init(in, out, count, datatype, op, communicator, info, &(*request)->request), request);
  return code;
}

static inline int lanyard_mpis_free(const char* call, MPIS_Request* request) {
  int code;
  if (request == NULL || *request == MPIS_REQUEST_NULL)
    return MPIS_SUCCESS;
  code = MPI_Request_free(&(*request)->request);
  if (code == MPI_SUCCESS) {
    free(*request);
    *request = MPIS_REQUEST_NULL;
  }
  return lanyard_mpis_code(call, code);
}

/* Frees at once what the request holds, sets *request to MPIS_REQUEST_NULL. Nothing to do where it is that already.
 * MPIS_INVALID_REQUEST_STATE where it is being matched, or started and not known to be complete. */
static inline int MPIS_Request_free(MPIS_Request* request) { return lanyard_mpis_free("MPIS_Request_free", request); }

/* As MPIS_Request_free on each, whatever becomes of the others; returns the first error. */
static inline int MPIS_Request_freeall(int count, MPIS_Request requests[]) {
  int i, code, first = lanyard_mpis_check("MPIS_Request_freeall", count, requests, LANYARD_MPIS_ANY);
  if (first != MPIS_SUCCESS)
    return first;
  for (i = 0; i < count; ++i) {
    code = lanyard_mpis_free("MPIS_Request_freeall", &requests[i]);
    if (first == MPIS_SUCCESS)
      first = code;
  }
  return first;
}

#include "lanyard/mpis_memory.h"

#endif /* LANYARD_MPIS_H_ */
