/* Lanyard: CPU-free, stream-triggered MPI communication. C11 and C++; above any MPI 3.1 library.
 *
 * A program creates standard persistent requests (MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Recv_init),
 * matches each once with its peer, and from then on enqueues starts and waits on a queue that belongs to a GPU or host
 * stream. The network card does the rest: no host thread takes part in a transfer.
 *
 * Link Lanyard before the MPI library: it learns the arguments of requests through the MPI profiling interface. A
 * request that is never given to a function below behaves exactly as before.
 *
 * Errors. Every function returns an MPI error code and invokes the error handler of the request's communicator (of
 * MPI_COMM_WORLD where no request is concerned), as an MPI function would. MPI_Error_class and MPI_Error_string explain
 * the codes. A call that fails has changed nothing: of a call on several requests, none was enqueued, and the handler
 * is that of the first one's communicator where the refusal is not about one of them alone. Before MPI_Init and after
 * MPI_Finalize every function but those of host streams returns MPI_ERR_OTHER, invokes no handler, and the first says
 * so on stderr. What is not a queue, MPIX_QUEUE_NULL too, gives MPIX_ERR_QUEUE; other addresses and handles that are
 * null give MPI_ERR_ARG, but for MPI_REQUEST_NULL, which gives MPI_ERR_REQUEST; negative counts give MPI_ERR_COUNT:
 * without a word about it below.
 *
 * Threads. Any thread that may call MPI may call these functions; they are serialised inside. Lanyard's
 * own threads never call MPI, so every thread level of MPI_Init_thread will do.
 *
 * Sources: Bridges et al., "Co-Design and Evaluation of a CPU-Free MPI GPU Communication Abstraction and
 * Implementation", Tables I-III; MPI 4.0 section 3.9 (persistent requests), 3.10 (matching), 9.3 (error handling).
 */
#ifndef LANYARD_LANYARD_H_
#define LANYARD_LANYARD_H_

#include <mpi.h>

#include "lanyard/lanyard_device.h"

#define LANYARD_VERSION_MAJOR 0
#define LANYARD_VERSION_MINOR 1
#define LANYARD_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Streams on host threads -------------------------------------------------------------------------------------
 * A host stream runs functions ("kernels") and queue operations one after another, on a thread of its own and on any
 * thread that waits for it. It stands in for a GPU stream on machines without one. */
typedef struct lanyard_host_stream* MPIX_Host_stream;
#define MPIX_HOST_STREAM_NULL ((MPIX_Host_stream)0)

/* A new, empty stream, to be freed by the caller. Local. MPI_ERR_ARG, MPI_ERR_NO_MEM. */
int MPIX_Host_stream_create(MPIX_Host_stream* stream);
/* Enqueues kernel(argument). Does not block. The kernel may not call functions of this header nor block for long.
 * MPI_ERR_ARG; MPI_ERR_NO_MEM where the stream's queue is full. */
int MPIX_Host_stream_launch(MPIX_Host_stream stream, void (*kernel)(void* argument), void* argument);
/* Blocks until everything enqueued so far has run; no deadline ends it (LANYARD_WARN_S speaks). MPI_ERR_ARG;
 * MPIX_ERR_BUSY in a kernel; MPI_ERR_OTHER where the stream was given up because MPI has ended. */
int MPIX_Host_stream_synchronize(MPIX_Host_stream stream);
/* Synchronises, frees, sets *stream to MPIX_HOST_STREAM_NULL. MPI_ERR_ARG; MPIX_ERR_BUSY while a queue uses it;
 * MPI_ERR_OTHER as above. */
int MPIX_Host_stream_free(MPIX_Host_stream* stream);

/* ---- Queues (Table I) -------------------------------------------------------------------------------------------- */
typedef struct lanyard_queue* MPIX_Queue;
#define MPIX_QUEUE_NULL ((MPIX_Queue)0)

typedef enum MPIX_Queue_type {
  MPIX_QUEUE_HOST = 1, /* stream_address: MPIX_Host_stream * */
  MPIX_QUEUE_CUDA = 2, /* stream_address: cudaStream_t * */
  MPIX_QUEUE_HIP = 3   /* stream_address: hipStream_t * */
} MPIX_Queue_type;

/* A queue on the stream at *stream_address; the handle is copied and the stream must outlive the queue. A process may
 * have any number of queues, one a stream. Local. Between MPI_Init and MPI_Finalize. The first queue on a GPU loads
 * Lanyard's kernels there, which may wait for what the GPU is doing. Buffers may be host memory or memory of any GPU of
 * the process where the card can do that ("device_memory" of MPIX_Queue_get_info); GPU kernels reach the latter only.
 * MPI_ERR_ARG: null, unknown type; MPIX_ERR_BUSY: the stream has a queue; MPI_ERR_UNSUPPORTED_OPERATION: a type that
 * this build or machine lacks (the message says which, and what to do); MPIX_ERR_NIC: no network card, or one that is
 * out of counters or that the stream cannot ring, or a wrong LANYARD_ variable; MPIX_ERR_FAILED: the GPU's driver. */
int MPIX_Queue_init(MPIX_Queue* queue, MPIX_Queue_type type, void* stream_address);
/* Waits for what is outstanding, frees the queue, sets *queue to MPIX_QUEUE_NULL. Local. Graphs with starts of the
 * queue must not be replayed any more. MPIX_ERR_QUEUE: queue is null, or *queue is no queue (any more), as
 * MPIX_QUEUE_NULL; MPIX_ERR_BUSY: a request was started on it whose wait was never enqueued (the message names it), a
 * graph's or kernel's start has not completed, there are sets of requests for kernels, or the caller is a kernel of a
 * host stream (nothing is freed then); else as MPIX_Queue_wait. Requests that graphs of the queue started are ordinary
 * ones again. */
int MPIX_Queue_free(MPIX_Queue* queue);
/* Blocks the calling thread until everything enqueued on the queue and its stream has completed, starts whose wait was
 * not enqueued included, but not starts that a kernel made and never waited for. MPIX_ERR_QUEUE: no queue, or its
 * stream is being captured; MPIX_ERR_BUSY: called by a kernel of a host stream, which would wait for itself;
 * MPIX_ERR_FAILED: an operation failed (the message names its request), or the stream's device is lost;
 * MPIX_ERR_STALLED: the deadline passed (LANYARD_DEADLINE_S); the message is a stall report; the call may be repeated.
 * A request's failure is told once, by the queue of its last start. From then on nothing waits for that request any
 * more: the stream goes on, with the request's data undefined. Free the request and match a new one; its buffer is
 * yours again when the call, repeated, has returned MPI_SUCCESS. */
int MPIX_Queue_wait(MPIX_Queue queue);
/* Figures as a new info object, to be freed by the caller. Of the queue: "stream" (host, cuda, hip), "starts", "waits",
 * "triggers", "bytes"; what graphs and kernels start is not in the last four. Of the process and its network card:
 * "nic", "strategy" (chosen by LANYARD_STRATEGY or by what the card promises), "entries_posted" (deferred-work entries
 * that starts needed, those that overflowed included), "entries_overflowed" (did not fit at their start: posted later
 * or run by software), "entries_by_software" (of these, run by software), "entries_in_use", "entries_depth", "counters"
 * (that this process has open on the card), "regions", "failures", "device_memory" (yes: buffers may be GPU memory).
 * Numbers are decimal. Local. MPIX_ERR_QUEUE, MPI_ERR_ARG. */
int MPIX_Queue_get_info(MPIX_Queue queue, MPI_Info* info);

/* ---- Hints on requests -------------------------------------------------------------------------------------------
 * As the MPI Forum's hybrid working group proposes them (MPI_Request_set_info). */

/* Gives a persistent request hints, before it is given to a matching function; keys that the info lacks stay as they
 * are, keys that Lanyard does not know are ignored. Local.
 * "lanyard_exchange": a name, or "none". Requests of this process that have the same name and are given to one call of
 * MPIX_Matchall or MPIX_Imatchall become an exchange once all of them are matched: they are always started by one call
 * and waited for by one call, in any order, with or without other requests beside them; anything else gives
 * MPI_ERR_REQUEST. A halo step of 8 sends and 8 receives then needs 17 deferred-work entries in place of 32, with ready
 * sends 9 in place of 24, and one trigger and one wait of the stream. The peers' requests need no hint.
 * What it asks of the program. No receiver waits for another message of the same exchange before it starts to receive:
 * regular sends go out when all their receivers have started. A ready send to a member of an exchange promises that the
 * receiver's stream has passed the wait for the exchange's last start, and the buffer may be written: the receive need
 * not have been started. The first freed ends the exchange: the others can then only be freed. They fail
 * together: when MPIX_Queue_wait has told that one of them failed and not all messages had come, the data of all is
 * undefined, their peers are told, and all are to be freed and matched anew. Graphs and kernels start no exchange
 * (MPI_ERR_UNSUPPORTED_OPERATION).
 * "lanyard_exchange_set": "0", "1", or "none". Of requests of one name that are given to one call those of set 0 and
 * those of set 1 are the two sets of one exchange, for double-buffered codes: each set is started and waited for by a
 * call, and starts go to the sets in turn, set 0 first, each after the wait for the one before; anything else gives
 * MPI_ERR_REQUEST. Where a peer's side of a pair is of the same set of such an exchange, and in the other set something
 * goes the other way between the two exchanges, no clear-to-send is needed: a halo step takes 9 entries with regular
 * sends. With other peers they are sent as before, and where all are such each set is an exchange by itself, whose
 * starts need no turn. It asks of the program that the receive buffers are the exchange's from the match on, as a
 * message may come before the first start; and that what a start received has been read, in the order of the stream,
 * before the next start, which is that of the other set. Both sets end and fail together.
 * A request has one name and one set: the last hint counts.
 * "lanyard_route": "card", or "none". With "card" its message goes by the card though GPUs could carry it themselves
 * (LANYARD_PEER), as kernels, host streams and other GPUs' streams want it that start it. A hint of one side will do.
 * MPI_ERR_REQUEST: not a persistent request known to Lanyard, or one that is matched or being matched; MPI_ERR_INFO:
 * info is MPI_INFO_NULL; MPI_ERR_INFO_VALUE: such a set, or route, there is not. A call that fails has changed nothing.
 */
int MPIX_Request_set_info(MPI_Request request, MPI_Info info);
/* What is in force, as a new info object, to be freed by the caller: "lanyard_route" (card, once it is matched, or
 * lane, where GPUs carry its messages themselves; mpi before: MPI_Start goes by the MPI), "lanyard_strategy" (of what
 * goes by the card), "lanyard_ready" (yes: a ready send; of a receive once it is
 * matched), "lanyard_entries" (once matched: deferred-work entries that each start takes), "lanyard_exchange" (the
 * name, or none), and where the request has a name that is not in force, "lanyard_exchange_why": it has not been
 * matched, or the strategy or the card cannot (it then works by itself), or another member is not matched or was freed.
 * Of a request that was given a set, "lanyard_exchange_set" (the set, where starts go to two in turn, or none), and
 * where clear-to-sends go with it all the same "lanyard_exchange_set_why": what is said of its exchange, or the call
 * that matched it was given no request of the other set, or the peer's side is of no exchange with two sets or of the
 * other set, or nothing of the other set goes the other way. Local. MPI_ERR_REQUEST, MPI_ERR_ARG. */
int MPIX_Request_get_info(MPI_Request request, MPI_Info* info);

/* ---- Persistent collectives ---------------------------------------------------------------------------------------
 * MPI 4's persistent collectives (sections 6.13 and 8.8), under the names that they have in Open MPI's extension of MPI
 * 3; where the MPI has MPI_Barrier_init and so on these are the same functions. The request is the MPI's: inactive, for
 * MPI_Start. Given to a matching function by all processes of the communicator it is a queue's from then on, as a
 * point-to-point request is: MPIX_Enqueue_start and MPIX_Enqueue_wait, alone or with others in one call,
 * MPI_Request_free, stall reports. Between the two calls nothing of the host's is needed. Its status is empty.
 * Every process sends to each that wants something of it, so of P processes each has up to P-1 messages either way, as
 * an exchange where there can be one: up to 2 (P-1) + 1 deferred-work entries a start in place of 4 (P-1). Barriers and
 * allreduces have two sets of messages for starts in turn, so P entries; with strategy B P-1 more each.
 * The one hint for a collective is "lanyard_exchange" with "none": its messages are then single
 * requests, as graphs and kernels need them, and the same at each start. It is to be given by all processes alike,
 * else barriers and allreduces do not match. What messages of point-to-point requests match does not depend on
 * collectives, nor the other way round.
 * MPIX_Allreduce_init: MPI's own operations on MPI's own datatypes, combined on the stream in the order of ranks, which
 * makes the same bits on every process and in every run: ((x0 op x1) op x2) and so on. The own contribution and the
 * result in memory of the host's, on host streams, or of one GPU, on streams of that; no long double there. Neighbour
 * collectives: on communicators with a topology; what goes towards lower coordinates of a grid comes from higher ones,
 * though both may be the same process. The call gives MPI's errors, and MPI_ERR_UNSUPPORTED_OPERATION where the MPI is
 * one of MPI 3 and not Open MPI, as it has no persistent collectives. Whether Lanyard can do it is said when it is
 * matched: MPI_ERR_OP, MPI_ERR_TYPE (an operation or a datatype of the program's, or one that is not defined for the
 * other), MPI_ERR_COUNT (2 GiB and more to combine), MPI_ERR_NO_MEM (for what the others contribute),
 * MPI_ERR_UNSUPPORTED_OPERATION (a communicator, a datatype or memory that it cannot do), and nothing has changed then.
 * Where a match fails on the way, as for MPI_ERR_TRUNCATE, the collective is not matched: it can be freed, or given to
 * a matching function again. Collective; local in what Lanyard does. */
int MPIX_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPIX_Bcast_init(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info,
                    MPI_Request* request);
int MPIX_Allreduce_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                        MPI_Info info, MPI_Request* request);
int MPIX_Allgather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPIX_Allgatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                         const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                         MPI_Info info, MPI_Request* request);
int MPIX_Neighbor_alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                                MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPIX_Neighbor_alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                 MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                                 MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
int MPIX_Neighbor_alltoallw_init(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                 const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                                 const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                 MPI_Request* request);

/* ---- Matching (Table II) -----------------------------------------------------------------------------------------
 * Pairs an inactive persistent request for good with exactly one of the peer, by the rules of MPI matching
 * (communicator, rank, tag, wildcards, order of the matching calls). Only requests that are given to a matching
 * function on both sides match. Blocking calls in opposite orders on two processes deadlock, as blocking sends would:
 * use matchall or imatch. What was given to a matching function makes progress whatever the program does, by a thread
 * of Lanyard's that makes no call of MPI's.
 * Datatypes with gaps are packed into memory of Lanyard's, by the stream: at each start of a send, and behind each wait
 * for a receive, which touches no byte between. The two sides' datatypes may differ, as MPI has it. The datatype may be
 * freed once the request is made. A host stream packs host memory and a GPU's stream that GPU's, by a kernel; for
 * graphs and kernels pack by a kernel of your own.
 * status: source, tag and length of the matched message for a receive, empty for a send; may be MPI_STATUS_IGNORE.
 * MPI_ERR_REQUEST: not an inactive persistent request known to Lanyard, matched (or matching) before, or twice in the
 * call;
 * MPI_ERR_TRUNCATE: the matched send is longer than the receive, on both sides; both requests are then as before;
 * MPIX_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed: the request stays in matching, the call may be repeated,
 * or the request freed, which withdraws its offer; MPIX_ERR_FAILED: the peer has ended (a receive from MPI_ANY_SOURCE
 * waits on for the others); MPI_ERR_ARG: the peer
 * follows another strategy (LANYARD_STRATEGY); MPI_ERR_RANK: no such peer; MPIX_ERR_NIC: no network card;
 * MPIX_ERR_NO_ENTRIES: the card is out of counters or regions; MPI_ERR_UNSUPPORTED_OPERATION: a buffered send, a
 * partitioned request, a datatype made by MPI_Type_create_darray or with too many irregular blocks, an
 * inter-communicator or a communicator of a kind that Lanyard cannot follow. */
int MPIX_Match(MPI_Request* request, MPI_Status* status);
/* As MPIX_Match on each, in any order of completion. statuses may be MPI_STATUSES_IGNORE. MPI_ERR_IN_STATUS: at least
 * one failed; each status then has its own code in MPI_ERROR; the others are matched. */
int MPIX_Matchall(int count, MPI_Request requests[], MPI_Status* statuses);
/* As MPIX_Match, without blocking: *match_request is an ordinary request for MPI_Test and MPI_Wait{,all,any,some},
 * which make progress. It cannot be cancelled: MPI_Cancel gives MPI_ERR_REQUEST. */
int MPIX_Imatch(MPI_Request* request, MPI_Request* match_request);
/* One match request for all: complete when every request is matched or has failed. The call that completes it returns
 * the first error; MPI_Waitall, MPI_Waitsome and their like put it into the status. requests[] may be reused on return.
 */
int MPIX_Imatchall(int count, MPI_Request requests[], MPI_Request* match_request);
/* *flag: whether the request is matched. Makes progress; does not complete the match request. MPI_ERR_REQUEST. */
int MPIX_Is_matched(MPI_Request request, int* flag);

/* ---- Enqueuing (Table III) ---------------------------------------------------------------------------------------
 * None of these blocks the caller or the stream, but for the wait, which blocks the stream only; and but for a stream
 * with four million things in its queue, and a card without free entries where overflow is off: then the caller helps
 * until there is room. */

/* The request's next transfer starts when the stream gets there. The request must be matched, and its previous start,
 * if any, waited for on a queue (and complete, if that was another queue); and of an exchange all members stand in the
 * call. MPI_ERR_REQUEST where it is not so;
 * MPIX_ERR_QUEUE; MPIX_ERR_NO_ENTRIES: overflow is off (LANYARD_OVERFLOW=off) and the starts of this epoch cannot fit
 * into the card's deferred-work entries; MPIX_ERR_FAILED: an operation of the request failed before, or, with
 * LANYARD_CHECK=on, a ready send came before its receive was started; MPIX_ERR_STALLED: no room until the deadline;
 * MPI_ERR_UNSUPPORTED_OPERATION: within a capture, see below; or a datatype with gaps, and a
 * buffer that is not in the stream's memory (a GPU's, the host's). */
int MPIX_Enqueue_start(MPIX_Queue queue, MPI_Request* request);
/* As MPIX_Enqueue_start on each, at the same point of the stream, all or none. A request may stand in it once. */
int MPIX_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]);
/* The stream goes on when the request's last start has completed: a receive's data has arrived, a send's buffer may
 * be written. Must be enqueued on the queue of the start. MPI_ERR_REQUEST, MPIX_ERR_QUEUE; MPIX_ERR_STALLED: no room in
 * the stream until the deadline. */
int MPIX_Enqueue_wait(MPIX_Queue queue, MPI_Request* request);
/* As MPIX_Enqueue_wait on each, all or none. */
int MPIX_Enqueue_waitall(MPIX_Queue queue, int count, MPI_Request requests[]);

/* ---- Graphs and kernels --------------------------------------------------------------------------------------------
 * Starts and waits that are enqueued while the queue's stream is being captured into a graph (CUDA, HIP) are made by
 * every replay of the graph, with no call of this header: the card is kept supplied by a thread of Lanyard's. Within a
 * capture each start must be followed by its wait. From then on the request belongs to graphs captured on this queue:
 * other starts and waits of it give MPI_ERR_REQUEST until it or the queue is freed, which the owner does when no graph
 * will replay it any more. Graphs are launched on the queue's stream, one at a time. MPI_ERR_UNSUPPORTED_OPERATION: the
 * card cannot (it takes no deferred work back, or has no doorbell that a kernel rings). */

/* Makes a set of matched requests, whose last starts were waited for and have completed, that kernels on the queue's
 * stream start and wait for by the functions of lanyard_device.h; *set is an address for kernels. Until the set is
 * freed nothing else starts the requests, and they may not be freed. Local; may wait for the device. MPI_ERR_REQUEST,
 * MPIX_ERR_QUEUE, MPIX_ERR_NO_ENTRIES, MPIX_ERR_FAILED: a request failed before; MPI_ERR_UNSUPPORTED_OPERATION as for
 * captures, or a request's datatype has gaps, or it combines (MPIX_Allreduce_init). A set's kernel on a host stream
 * whose wait must tell of failures and stalls needs LANYARD_DEADLINE_S, which lets it run on the stream's own thread.
 */
int MPIX_Device_requests_create(MPIX_Queue queue, int count, MPI_Request requests[], MPIX_Device_requests** set);
/* Makes them ordinary requests again, sets *set to NULL. The kernels of the set must have ended. MPI_ERR_ARG,
 * MPIX_ERR_QUEUE; MPIX_ERR_BUSY: a start has not completed; the call may be repeated. */
int MPIX_Device_requests_free(MPIX_Queue queue, MPIX_Device_requests** set);

/* Calls on a matched request that change: MPI_Start and MPI_Startall give MPI_ERR_REQUEST from matching on;
 * MPI_Request_free, MPI_Test*, MPI_Wait*, MPI_Cancel and MPI_Request_get_status give MPI_ERR_REQUEST while its last
 * start has not completed (MPIX_Queue_wait tells) or not been waited for. MPI_Request_free frees its resources at once,
 * but for what a card still has something to do with: that goes later.
 */

/* ---- Error classes beyond MPI's ----------------------------------------------------------------------------------
 * MPI assigns them at run time: compare with the result of MPI_Error_class after MPI_Init. */
typedef enum MPIX_Error_kind {
  MPIX_ERROR_QUEUE = 0,
  MPIX_ERROR_BUSY = 1,
  MPIX_ERROR_NO_ENTRIES = 2,
  MPIX_ERROR_FAILED = 3,
  MPIX_ERROR_STALLED = 4,
  MPIX_ERROR_NIC = 5
} MPIX_Error_kind;
/* The error class of a kind; MPI_ERR_OTHER before MPI_Init. */
int MPIX_Error_class_of(MPIX_Error_kind kind);
#define MPIX_ERR_QUEUE MPIX_Error_class_of(MPIX_ERROR_QUEUE)
#define MPIX_ERR_BUSY MPIX_Error_class_of(MPIX_ERROR_BUSY)
#define MPIX_ERR_NO_ENTRIES MPIX_Error_class_of(MPIX_ERROR_NO_ENTRIES)
#define MPIX_ERR_FAILED MPIX_Error_class_of(MPIX_ERROR_FAILED)
#define MPIX_ERR_STALLED MPIX_Error_class_of(MPIX_ERROR_STALLED)
#define MPIX_ERR_NIC MPIX_Error_class_of(MPIX_ERROR_NIC)

#ifdef __cplusplus
}
#endif

#endif /* LANYARD_LANYARD_H_ */
