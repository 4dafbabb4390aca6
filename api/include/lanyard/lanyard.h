/* Lanyard: CPU-free, stream-triggered MPI communication. C11 and C++; above any MPI 3.1 library.
 *
 * A program creates standard persistent requests (MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init,
 * MPI_Recv_init) and matches each once with a request of its peer. From then on it enqueues starts
 * and waits on a queue, which belongs to a GPU stream or a host stream. The network card does the
 * rest: no host thread takes part in a transfer.
 *
 * Link Lanyard before the MPI library: it reads the arguments of requests through the MPI profiling
 * interface. A request that is never passed to a function below behaves exactly as without Lanyard.
 *
 * api/man/make_pages.py makes the manual pages of section 3 from this file. A comment right before
 * declarations is a page, and its first sentence is the title of the page.
 *
 * Sources: Bridges et al., "Co-Design and Evaluation of a CPU-Free MPI GPU Communication
 * Abstraction and Implementation", Tables I-III; MPI 4.0 section 3.9 (persistent requests), 3.10
 * (matching), 9.3 (error handling).
 *
 * Returns:
 * MPI_SUCCESS or an MPI error code. MPI_Error_class and MPI_Error_string explain the code. On an
 * error the function first invokes the error handler of the request's communicator, or of
 * MPI_COMM_WORLD if the error concerns no request. MPI's default handler ends the job. A call that
 * fails changes nothing: it enqueues none of its requests.
 *
 * Always:
 * A null address or handle gives MPI_ERR_ARG, with two exceptions. A handle that is not a queue,
 * such as LANYARD_QUEUE_NULL, gives LANYARD_ERR_QUEUE. MPI_REQUEST_NULL gives MPI_ERR_REQUEST. A
 * negative count gives MPI_ERR_COUNT; a count of 0 is allowed. Before MPI_Init and after
 * MPI_Finalize all functions except those of host streams return MPI_ERR_OTHER and invoke no error
 * handler. The first such error of a process is written to stderr.
 *
 * Threads:
 * Any thread that may call MPI may call this function. Lanyard serialises the calls. Its own
 * threads never call MPI, so every thread level of MPI_Init_thread is enough.
 *
 * Names:
 * Functions and types have names with Lanyard_, constants with LANYARD_. A program may write MPIX_
 * instead of either: these names are macros (lanyard_names.h). Some MPIs, such as HPE Cray MPICH,
 * have functions and types of their own with the same MPIX_ names. To use those of the MPI, define
 * LANYARD_NO_MPIX_NAMES before the include. */
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

/* ---- Streams on host threads ----------------------------------------------------------------- */

/* Streams on host threads. A host stream runs functions ("kernels") and queue operations one after
 * another. It replaces a GPU stream on machines without a GPU. The functions also work before
 * MPI_Init and after MPI_Finalize. All are local.
 *
 *   Lanyard_Host_stream_create: makes a new, empty stream. The caller frees it.
 *   Lanyard_Host_stream_launch: enqueues kernel(argument). It does not block.
 *   Lanyard_Host_stream_synchronize: blocks until everything enqueued so far has run. It
 *     ignores failed transfers and LANYARD_DEADLINE_S: for these use Lanyard_Queue_wait.
 *   Lanyard_Host_stream_free: synchronises, frees the stream and sets *stream to
 *     LANYARD_HOST_STREAM_NULL. Free a queue on the stream first.
 *
 * Kernels run one at a time, on a thread of the stream or on any thread that waits for the stream.
 * If LANYARD_DEADLINE_S is set, kernels run on the stream's own thread while Lanyard_Queue_wait
 * waits. A kernel must not call functions of lanyard.h, and should not block for long.
 *
 * Errors:
 *   MPI_ERR_ARG: not a host stream.
 *   MPI_ERR_NO_MEM: no memory; or four million operations wait in the stream (launch): synchronise.
 *   LANYARD_ERR_BUSY: a queue uses the stream (free); or a kernel made the call
 *     (synchronize, free).
 *   MPI_ERR_OTHER: MPI_Finalize stopped the stream before it was empty (synchronize, free). */
typedef struct lanyard_host_stream* Lanyard_Host_stream;
#define LANYARD_HOST_STREAM_NULL LANYARD_NULL(Lanyard_Host_stream)
int Lanyard_Host_stream_create(Lanyard_Host_stream* stream);
int Lanyard_Host_stream_launch(Lanyard_Host_stream stream, void (*kernel)(void* argument), void* argument);
int Lanyard_Host_stream_synchronize(Lanyard_Host_stream stream);
int Lanyard_Host_stream_free(Lanyard_Host_stream* stream);

/* ---- Queues (Table I) ------------------------------------------------------------------------ */

/* Makes a queue on a GPU or host stream. A process may have any number of queues, but only one on
 * each stream. Local.
 *
 *   queue: the new queue. Free it with Lanyard_Queue_free before its stream.
 *   type: the kind of stream.
 *   stream_address: the address of a Lanyard_Host_stream, a cudaStream_t or a hipStream_t. The
 *     handle is copied. The caller keeps the stream, which must outlive the queue.
 *
 * Call it between MPI_Init and MPI_Finalize. The first queue on a GPU loads Lanyard's kernels,
 * which may wait for work that is running on the GPU. Buffers may be host memory. They may be
 * memory of any GPU of the process if the card supports it ("device_memory" of
 * Lanyard_Queue_get_info). A GPU kernel can access buffers in GPU memory only.
 *
 * Errors:
 *   MPI_ERR_ARG: the type is unknown, or there is no stream at the address.
 *   LANYARD_ERR_BUSY: the stream already has a queue.
 *   MPI_ERR_UNSUPPORTED_OPERATION: this build or machine has no such streams. The message
 *     says what to do.
 *   LANYARD_ERR_NIC: there is no network card, the card has no counter left, the stream cannot ring
 *     the card, or a variable LANYARD_* is wrong on any rank.
 *   LANYARD_ERR_FAILED: the GPU's driver reports an error. */
typedef struct lanyard_queue* Lanyard_Queue;
#define LANYARD_QUEUE_NULL LANYARD_NULL(Lanyard_Queue)
typedef enum Lanyard_Queue_type {
  LANYARD_QUEUE_HOST = 1, /* stream_address: Lanyard_Host_stream * */
  LANYARD_QUEUE_CUDA = 2, /* stream_address: cudaStream_t * */
  LANYARD_QUEUE_HIP = 3   /* stream_address: hipStream_t * */
} Lanyard_Queue_type;
int Lanyard_Queue_init(Lanyard_Queue* queue, Lanyard_Queue_type type, void* stream_address);

/* Frees a queue. Waits like Lanyard_Queue_wait until everything on the queue has completed, and
 * sets *queue to LANYARD_QUEUE_NULL. Local. The caller keeps the stream. Matched requests stay
 * matched and may be started on another queue. Graphs that were captured on this queue must not be
 * launched any more; their requests can then be started and waited for by ordinary calls again.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue, or its stream is being captured into a graph.
 *   LANYARD_ERR_BUSY: the wait of a start was never enqueued; the message names the request. Or a
 *     start of a graph or kernel has not completed, the queue has sets for kernels, or a kernel of
 *     a host stream made the call.
 *   LANYARD_ERR_FAILED, LANYARD_ERR_STALLED: see Lanyard_Queue_wait. Repeat the call. */
int Lanyard_Queue_free(Lanyard_Queue* queue);

/* Waits until everything on a queue has completed. Blocks the calling thread until all that was
 * enqueued on the queue and its stream has completed, including starts without an enqueued wait. If
 * a kernel made starts, a kernel must wait for them; this call waits for the kernel. Call this
 * function before the program relies on data: if a transfer fails, the stream may pass its wait.
 *
 * The queue of a request's last start reports its failure, once. After that nothing waits for the
 * request: the stream goes on, and the request's data is undefined. Repeat the call until it
 * returns MPI_SUCCESS; then the program may use all buffers again. Free the failed request and
 * match a new one.
 *
 * With the strategy sender-flag the call asks the senders of all receives since the last call
 * whether their sends succeeded.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue, or its stream is being captured into a graph.
 *   LANYARD_ERR_BUSY: a kernel of a host stream made the call, which would wait for itself.
 *   LANYARD_ERR_FAILED: an operation failed; the message names its request and the reason. Or the
 *     stream's device is lost.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The message is a stall report.
 *     Repeat the call. */
int Lanyard_Queue_wait(Lanyard_Queue queue);

/* Gives statistics of a queue and its network card. *info is a new info object, which the caller
 * frees. Numbers are decimal. Local.
 *
 * Of the queue (without starts and waits of graphs and kernels):
 *   "stream": host, cuda or hip.
 *   "starts", "waits": how many were enqueued, counted for each request.
 *   "triggers": how many rings of the card and starts of lanes were enqueued.
 *   "bytes": how many bytes the started sends have.
 *
 * Of the process and its card:
 *   "nic": the card's name.
 *   "strategy": target-counter or sender-flag; see LANYARD_STRATEGY in lanyard(7).
 *   "device_memory": yes if buffers may be GPU memory, else no.
 *   "entries_depth", "entries_in_use": deferred-work entries of the card, and those in use.
 *   "entries_posted": how many entries all starts have needed so far, including overflowed ones.
 *   "entries_overflowed": how many of these the card had no room for at their start. They were
 *     posted later, or software ran them.
 *   "entries_by_software": how many of these software ran.
 *   "counters", "regions": how many counters this process has open on the card, and how many memory
 *     regions it has registered. A process takes one counter for matching and one for each queue. A
 *     matched regular send takes two, a ready send one, and a receive one with target-counter.
 *   "failures": how many operations have failed so far.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue. */
int Lanyard_Queue_get_info(Lanyard_Queue queue, MPI_Info* info);

/* ---- Hints on requests --------------------------------------------------------------------------
 * The MPI Forum's hybrid working group proposes MPI_Request_set_info. */

/* Sets hints on a persistent request, or tells which are in force. Set hints before the request is
 * passed to a matching function. Hints that info does not contain stay as they are; unknown keys
 * are ignored. Local.
 *
 *   lanyard_exchange: a name, or none. Requests of this process with the same name become an
 *     exchange, once all are matched, if they are passed to one call of Lanyard_Matchall or
 *     Lanyard_Imatchall. Start an exchange in one call and wait for it in one call, in any order,
 *     alone or with other requests. The peers need no hint. Its requests share counters: a halo
 *     step of 8 sends and 8 receives takes 17 deferred-work entries instead of 32, with ready sends
 *     9 instead of 24.
 *   lanyard_exchange_set: 0, 1 or none. Set 0 and set 1 of one name are the two sets of one
 *     exchange, for double-buffered codes. Start each set in one call and wait for it in one call.
 *     Take the sets in turn, set 0 first, and enqueue each start after the wait for the set before.
 *     A pair then needs no clear-to-send if the peer's request is in the same set of such an
 *     exchange, and a message of the other set goes the other way. Other pairs use clear-to-sends.
 *     Without any clear-to-send a halo step takes 9 entries with regular sends. If no pair can omit
 *     its clear-to-send, each set is an exchange by itself.
 *   lanyard_route: card or none. With card the message goes through the card even if GPUs could
 *     carry it (LANYARD_PEER). Kernels, host streams and streams of other GPUs can start the
 *     request only with this hint. A hint on one side is enough.
 *
 * A request has one name and one set: the last hint counts. An exchange has these rules:
 *
 *   -: No receiver may wait for another message of the exchange before it starts its receive:
 *     regular sends go out when all their receivers have started.
 *   -: A ready send to a member promises that the receiver's stream has passed the wait for the
 *     exchange's last start, and that the buffer may be written. The receive need not be started.
 *   -: With two sets the receive buffers belong to the exchange from the match on. Read received
 *     data in stream order, before the next start.
 *   -: Freeing one member ends the exchange, with both sets. The others can then only be freed.
 *   -: Members fail together: the data of all is then undefined. Free all and match new ones.
 *   -: Graphs and kernels cannot start an exchange.
 *
 * Lanyard_Request_get_info makes a new info object of the hints in force, which the caller frees:
 *
 *   lanyard_route: mpi before the match; then card, or lane if GPUs carry the messages.
 *   lanyard_strategy: target-counter or sender-flag, if the request goes through the card.
 *   lanyard_ready: yes for a ready send, and for a receive that is matched with one.
 *   lanyard_entries: once matched, how many deferred-work entries each start takes. Entries that an
 *     exchange needs for all members are counted at one of them.
 *   lanyard_exchange, lanyard_exchange_set: the name and the set in force, or none.
 *   lanyard_exchange_why, lanyard_exchange_set_why: why a given hint is not in force.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not a persistent request that Lanyard knows; or Lanyard_Request_set_info: the
 *     request is matched or being matched.
 *   MPI_ERR_INFO: info is MPI_INFO_NULL.
 *   MPI_ERR_INFO_VALUE: there is no such set or route. */
int Lanyard_Request_set_info(MPI_Request request, MPI_Info info);
int Lanyard_Request_get_info(MPI_Request request, MPI_Info* info);

/* ---- Persistent collectives ------------------------------------------------------------------ */

/* Makes persistent collectives that streams can start. They are those of MPI 4 (sections 6.13 and
 * 8.8). If the MPI has MPI_Barrier_init and its like, these are the same functions. Open MPI's
 * extension (mpi-ext.h) also has the MPIX_ names. In a source that includes this file they name
 * Lanyard's functions. In other sources they name the MPI's, whose requests cannot be matched. The
 * calls are collective.
 *
 * The MPI makes the request, inactive, for MPI_Start. Once all processes have passed it to a
 * matching function, use Lanyard_Enqueue_start and Lanyard_Enqueue_wait, alone or with other
 * requests in one call. The status of its match is empty.
 *
 * Each process sends directly to each process that needs its data: among P processes up to P-1
 * messages in each direction. They form an exchange if the card supports it
 * (Lanyard_Request_set_info), and a start takes up to 2P-1 deferred-work entries. Barriers and
 * allreduces use two sets of messages in turn, and a start takes P entries. Graphs and kernels need
 * single requests instead: for these all processes set the hint lanyard_exchange to none.
 *
 * Lanyard_Allreduce_init takes MPI's own operations on MPI's own datatypes. The stream combines in
 * the order of ranks, ((x0 op x1) op x2) and so on: every process and every run gets the same bits.
 * The send buffer and the receive buffer must be host memory, on a host stream, or memory of one
 * GPU, on a stream of that GPU. GPUs have no long double.
 *
 * Neighbour collectives need a communicator with a topology. In a grid, messages towards lower
 * coordinates arrive from higher ones, even if both neighbours are the same process.
 *
 * Errors:
 * The calls give MPI's errors, and MPI_ERR_UNSUPPORTED_OPERATION if the MPI has no persistent
 * collectives. The match reports all that Lanyard cannot do. It then changes nothing, and MPI_Start
 * can still run the collective:
 *   MPI_ERR_OP: the operation is the program's own, or is not defined for the datatype.
 *   MPI_ERR_TYPE: the datatype of a reduction is not MPI's own.
 *   MPI_ERR_COUNT: a reduction of 2 GiB or more.
 *   MPI_ERR_NO_MEM: no memory for the contributions of other processes.
 *   MPI_ERR_UNSUPPORTED_OPERATION: the communicator, datatype or memory is not supported. */
int Lanyard_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request* request);
int Lanyard_Bcast_init(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm, MPI_Info info,
                       MPI_Request* request);
int Lanyard_Allreduce_init(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm, MPI_Info info, MPI_Request* request);
int Lanyard_Allgather_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                           MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
int Lanyard_Allgatherv_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                            const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Info info, MPI_Request* request);
int Lanyard_Neighbor_alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                   MPI_Request* request);
int Lanyard_Neighbor_alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                    MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                                    MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
int Lanyard_Neighbor_alltoallw_init(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                    const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                                    const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                    MPI_Info info, MPI_Request* request);

/* ---- Matching (Table II) --------------------------------------------------------------------- */

/* Matches persistent requests with those of the peer. Each request is paired for good with
 * exactly one request of the peer. MPI's rules decide which: communicator, rank, tag, wildcards,
 * and the order of the matching calls. Only requests that are passed to a matching function on
 * both sides match. Lanyard_Match blocks until its request is matched. Lanyard_Matchall blocks
 * until all are, in any order.
 *
 *   request, requests: inactive persistent requests. Free a matched one with MPI_Request_free.
 *   status, statuses: for a receive, source, tag and length of the matched message; empty for a
 *     send. May be MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
 *
 * Blocking calls in opposite orders on two processes deadlock, as blocking sends do: use
 * Lanyard_Matchall or Lanyard_Imatch. Once a request is passed to a matching function its match
 * makes progress, whatever the program does.
 *
 * A receive may be longer than its send. The datatypes of the two sides may differ, as MPI allows.
 * A datatype may be freed once the request is made. If a datatype has gaps, the stream packs the
 * buffer into memory of Lanyard at each start of a send. For a receive it unpacks after each wait,
 * and leaves the gaps alone. A host stream packs host memory, a GPU stream packs memory of its GPU.
 * In graphs and sets for kernels a kernel of the program must pack.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not an inactive persistent request that Lanyard knows; it is matched or being
 *     matched already; or the call names it twice.
 *   MPI_ERR_TRUNCATE: the matched send is longer than the receive. Both sides get the error, and
 *     both requests are as before.
 *   MPI_ERR_IN_STATUS: Lanyard_Matchall: at least one request was not matched. Each status has its
 *     code in MPI_ERROR.
 *   MPI_ERR_RANK: the communicator has no such rank.
 *   MPI_ERR_ARG: the peer has another LANYARD_STRATEGY.
 *   LANYARD_ERR_FAILED: the peer has ended, or cannot be reached. A receive from MPI_ANY_SOURCE
 *     waits for the other processes.
 *   LANYARD_ERR_NIC: there is no network card, or a variable LANYARD_* is wrong on any rank.
 *   LANYARD_ERR_NO_ENTRIES: the card has no counter or region left. Free requests or queues.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The match goes on: repeat the
 *     call, or free the request to withdraw it.
 *   MPI_ERR_UNSUPPORTED_OPERATION: a buffered send, a partitioned request, a datatype made by
 *     MPI_Type_create_darray or with too many irregular blocks, an inter-communicator, a
 *     communicator not made from MPI_COMM_WORLD or MPI_COMM_SELF, or memory that the card cannot
 *     reach. The message says which. */
int Lanyard_Match(MPI_Request* request, MPI_Status* status);
int Lanyard_Matchall(int count, MPI_Request requests[], MPI_Status* statuses);

/* Begins to match persistent requests. Local; does not block. The rules of Lanyard_Match apply.
 *
 *   requests: the array may be reused on return.
 *   match_request: an ordinary MPI request for MPI_Test, MPI_Wait and their like, which make
 *     progress. It completes when every request is matched or has failed. It cannot be cancelled
 *     (MPI_Cancel gives MPI_ERR_REQUEST). If it is freed with MPI_Request_free, the match goes on.
 *
 * The persistent requests cannot be freed or matched again before match_request completes. Its
 * status is that of Lanyard_Match for one request, and empty for several.
 *
 * Errors:
 * Wrong arguments are reported at once, with the codes of Lanyard_Match, and then nothing begins.
 * The call that completes match_request returns the first failure of a match. MPI_Waitall and its
 * like put it into the status. Lanyard_Is_matched tells which requests are matched.
 *   LANYARD_ERR_STALLED: from a blocking call such as MPI_Wait: the deadline (LANYARD_DEADLINE_S)
 *     passed. Repeat the call. */
int Lanyard_Imatch(MPI_Request* request, MPI_Request* match_request);
int Lanyard_Imatchall(int count, MPI_Request requests[], MPI_Request* match_request);

/* Asks whether a request is matched. Sets *flag to 1 if it is, else to 0. Makes progress, but does
 * not complete the match request. A loop around the call does not end if the match fails. Local.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not a persistent request that Lanyard knows. */
int Lanyard_Is_matched(MPI_Request request, int* flag);

/* ---- Enqueuing (Table III) ----------------------------------------------------------------------
 * The calls are local and do not block the caller, with two exceptions: the stream already holds
 * four million operations, or the card has no free entry and overflow is off (LANYARD_OVERFLOW).
 * Then the caller makes progress until there is room.
 *
 * Once a request is passed to a matching function, MPI_Start and MPI_Startall give
 * MPI_ERR_REQUEST. So do MPI_Request_free, MPI_Test*, MPI_Wait*, MPI_Cancel and
 * MPI_Request_get_status while the last start has not completed or its wait is not enqueued.
 * Lanyard_Queue_wait waits until it has completed. If the card still uses resources of a request,
 * MPI_Request_free returns at once and frees them later.
 *
 * If the queue's stream is being captured into a CUDA or HIP graph, every launch of the graph makes
 * the enqueued starts and waits. The capture must contain a wait after each start. From then on the
 * request belongs to graphs captured on this queue, until the request or the queue is freed: other
 * starts and waits give MPI_ERR_REQUEST. Launch the graphs on the queue's stream, one at a time. */

/* Enqueues the next transfer of matched requests. It starts when the stream reaches this point: a
 * send sends what its buffer then holds, and a receive lets its buffer be written. From the call
 * until the stream has passed the wait, do not write the buffer of a send and do not touch that of
 * a receive. Lanyard_Enqueue_startall starts all requests at the same point of the stream, or none.
 *
 * Each request must be matched, and the wait for its previous start must be enqueued. If that was
 * on another queue, the previous start must also have completed. The call must contain all members
 * of an exchange, or none.
 *
 * A send of MPI_Send_init or MPI_Ssend_init waits in the card until its receive starts; the stream
 * goes on. A ready send (MPI_Rsend_init) does not wait: the program promises that its receive has
 * started. Otherwise the data is undefined; LANYARD_CHECK=on finds messages that arrive before the
 * start of their receive is enqueued.
 *
 * Errors:
 *   MPI_ERR_REQUEST: the request is not matched, not waited for, belongs to graphs or kernels, is
 *     named twice in the call, or has reached its last possible start. The message says which.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_NO_ENTRIES: overflow is off (LANYARD_OVERFLOW), and the card's deferred-work
 *     entries cannot hold this start and all starts without a wait.
 *   LANYARD_ERR_FAILED: an operation of the request failed before; or, with LANYARD_CHECK=on, a
 *     ready send came too early.
 *   LANYARD_ERR_STALLED: there was no room before the deadline (LANYARD_DEADLINE_S).
 *   MPI_ERR_UNSUPPORTED_OPERATION: the stream cannot ring the card. Or the stream is being
 *     captured, and the card cannot cancel deferred work or has no doorbell for kernels. Or the
 *     datatype has gaps, or the request is an allreduce, in memory that the stream cannot reach. */
int Lanyard_Enqueue_start(Lanyard_Queue queue, MPI_Request* request);
int Lanyard_Enqueue_startall(Lanyard_Queue queue, int count, MPI_Request requests[]);

/* Enqueues a wait for the last start of requests. The stream goes on when that start has completed:
 * the data of a receive has arrived, the buffer of a send may be written. Enqueue the wait on the
 * queue of the start. Then the request may be started again on this queue. Lanyard_Enqueue_waitall
 * enqueues a wait for all requests, or none.
 *
 * If a transfer fails, the stream may pass its wait. If a peer has ended, the stream waits for
 * ever. Lanyard_Queue_wait reports both and lets the stream go on.
 *
 * Errors:
 *   MPI_ERR_REQUEST: the request is not matched, has no start to wait for on this queue, belongs to
 *     graphs or kernels, or is named twice in the call. The message says which.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_STALLED: the stream had no room before the deadline (LANYARD_DEADLINE_S). */
int Lanyard_Enqueue_wait(Lanyard_Queue queue, MPI_Request* request);
int Lanyard_Enqueue_waitall(Lanyard_Queue queue, int count, MPI_Request requests[]);

/* ---- Starts from kernels --------------------------------------------------------------------- */

/* Makes and frees sets of requests that kernels start and wait for. Kernels on the queue's stream
 * call Lanyard_Device_startall and Lanyard_Device_waitall. Local; may wait for the device.
 *
 *   requests: matched, in no other set; their last starts were waited for and have completed.
 *   set: an address for kernels. Lanyard_Device_requests_free sets it to NULL.
 *
 * Until the set is freed, only its kernels can start the requests, and the requests cannot be
 * freed. A thread of Lanyard posts their deferred work to the card in time.
 * Lanyard_Device_requests_free makes them ordinary requests again; the kernels of the set must have
 * ended (Lanyard_Queue_wait). A queue with sets cannot be freed.
 *
 * A kernel on a host stream that waits learns of failures and stalls only if LANYARD_DEADLINE_S is
 * set: it then runs on the stream's own thread.
 *
 * Errors:
 *   MPI_ERR_REQUEST: a request is not matched, its last start was not waited for or has not
 *     completed, it belongs to a set or a graph, or is named twice in the call. Or the stream is
 *     being captured.
 *   MPI_ERR_ARG: not a set of this queue.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_FAILED: an operation of a request failed before.
 *   LANYARD_ERR_NO_ENTRIES: the card has no counter left; or overflow is off, and the card's
 *     deferred-work entries are too few.
 *   MPI_ERR_UNSUPPORTED_OPERATION: the card cannot cancel deferred work, or has no doorbell for
 *     kernels, as cards over libfabric; or a request's datatype has gaps, or it is an allreduce
 *     (Lanyard_Allreduce_init).
 *   LANYARD_ERR_BUSY: Lanyard_Device_requests_free: a start has not completed. Repeat the call. */
int Lanyard_Device_requests_create(Lanyard_Queue queue, int count, MPI_Request requests[],
                                   Lanyard_Device_requests** set);
int Lanyard_Device_requests_free(Lanyard_Queue queue, Lanyard_Device_requests** set);

/* ---- Error classes beyond MPI's -------------------------------------------------------------- */

/* Gives Lanyard's error classes. MPI assigns them at run time, so compare them with the result of
 * MPI_Error_class after MPI_Init. They cannot be labels of a switch, and may differ between
 * ranks. An error code and its message stay valid until 256 other errors have happened. Local;
 * does not block.
 *
 *   LANYARD_ERR_QUEUE: the handle is not a queue of this process, or its stream is being
 *     captured into a graph.
 *   LANYARD_ERR_BUSY: the object is in use, or a kernel of a host stream made a call that would
 *     wait for the kernel itself.
 *   LANYARD_ERR_NO_ENTRIES: the card has too few deferred-work entries, counters or regions.
 *   LANYARD_ERR_FAILED: an operation failed: the peer has ended, cannot be reached or has freed its
 *     request, memory is unmapped, or the GPU is lost.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The message is a stall report. A
 *     report that is too long for an error string is written to stderr in full. Repeat the call.
 *   LANYARD_ERR_NIC: there is no usable network card, or a variable LANYARD_* is wrong.
 *
 * Returns:
 * The class; MPI_ERR_OTHER before MPI_Init, after MPI_Finalize and for an unknown kind. No
 * handler is invoked. */
typedef enum Lanyard_Error_kind {
  LANYARD_ERROR_QUEUE = 0,
  LANYARD_ERROR_BUSY = 1,
  LANYARD_ERROR_NO_ENTRIES = 2,
  LANYARD_ERROR_FAILED = 3,
  LANYARD_ERROR_STALLED = 4,
  LANYARD_ERROR_NIC = 5
} Lanyard_Error_kind;
int Lanyard_Error_class_of(Lanyard_Error_kind kind);
#define LANYARD_ERR_QUEUE Lanyard_Error_class_of(LANYARD_ERROR_QUEUE)
#define LANYARD_ERR_BUSY Lanyard_Error_class_of(LANYARD_ERROR_BUSY)
#define LANYARD_ERR_NO_ENTRIES Lanyard_Error_class_of(LANYARD_ERROR_NO_ENTRIES)
#define LANYARD_ERR_FAILED Lanyard_Error_class_of(LANYARD_ERROR_FAILED)
#define LANYARD_ERR_STALLED Lanyard_Error_class_of(LANYARD_ERROR_STALLED)
#define LANYARD_ERR_NIC Lanyard_Error_class_of(LANYARD_ERROR_NIC)

#ifdef __cplusplus
}
#endif

#ifndef LANYARD_NO_MPIX_NAMES
#include "lanyard/lanyard_names.h"
#endif

#endif /* LANYARD_LANYARD_H_ */
