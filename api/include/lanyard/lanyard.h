/* Lanyard: CPU-free, stream-triggered MPI communication. C11 and C++; above any MPI 3.1 library.
 *
 * A program creates standard persistent requests (MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Recv_init),
 * matches each once with its peer, and from then on enqueues starts and waits on a queue that belongs to a GPU or host
 * stream. The network card does the rest: no host thread takes part in a transfer.
 *
 * Link Lanyard before the MPI library: it learns the arguments of requests through the MPI profiling interface. A
 * request that is never given to a function below behaves exactly as before.
 *
 * api/man/make_pages.py makes the manual pages of section 3 from this file. A comment right before declarations is a
 * page, and its first sentence is the page's title.
 *
 * Sources: Bridges et al., "Co-Design and Evaluation of a CPU-Free MPI GPU Communication Abstraction and
 * Implementation", Tables I-III; MPI 4.0 section 3.9 (persistent requests), 3.10 (matching), 9.3 (error handling).
 *
 * Returns:
 * MPI_SUCCESS or an MPI error code. On an error the function first invokes the error handler of the request's
 * communicator, or of MPI_COMM_WORLD where no request is concerned; MPI's default handler ends the job. MPI_Error_class
 * and MPI_Error_string explain the code. A call that fails has changed nothing: of several requests none was enqueued.
 *
 * Always:
 * A null address or handle gives MPI_ERR_ARG, but what is not a queue, LANYARD_QUEUE_NULL too, gives LANYARD_ERR_QUEUE,
 * and MPI_REQUEST_NULL gives MPI_ERR_REQUEST. A negative count gives MPI_ERR_COUNT; 0 is allowed. Before MPI_Init and
 * after MPI_Finalize all functions but those of host streams return MPI_ERR_OTHER and invoke no handler; the first such
 * error of a process is written to stderr.
 *
 * Threads:
 * Any thread that may call MPI may call this function; calls are serialised inside. Lanyard's own threads never call
 * MPI, so every thread level of MPI_Init_thread will do.
 *
 * Names:
 * Functions and types have names with Lanyard_, constants with LANYARD_. A program may write MPIX_ in place of both:
 * these names are macros (lanyard_names.h). Some MPIs have functions and types of their own by the same MPIX_ names, as
 * HPE Cray MPICH has. A source that defines LANYARD_NO_MPIX_NAMES before the include gets the MPI's.
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

/* ---- Streams on host threads ------------------------------------------------------------------------------------- */

/* Streams on host threads. A host stream runs functions ("kernels") and queue operations one after another. It stands
 * in for a GPU stream on machines without one. The functions work before MPI_Init and after MPI_Finalize too. All are
 * local.
 *
 *   Lanyard_Host_stream_create: makes a new, empty stream. The caller frees it.
 *   Lanyard_Host_stream_launch: enqueues kernel(argument). It does not block.
 *   Lanyard_Host_stream_synchronize: blocks until everything enqueued so far has run. It reports no failure of a
 *     transfer and LANYARD_DEADLINE_S does not end it; Lanyard_Queue_wait does both.
 *   Lanyard_Host_stream_free: synchronises, frees the stream and sets *stream to LANYARD_HOST_STREAM_NULL. Free a queue
 *     on the stream first.
 *
 * Kernels run on a thread of the stream, or on any thread that waits for the stream, never two at a time. With
 * LANYARD_DEADLINE_S set they run on the stream's own thread while Lanyard_Queue_wait waits. A kernel may not call
 * functions of lanyard.h, and should not block for long.
 *
 * Errors:
 *   MPI_ERR_ARG: not a host stream.
 *   MPI_ERR_NO_MEM: no memory; or four million things wait in the stream (launch). Synchronise and repeat.
 *   LANYARD_ERR_BUSY: a queue uses the stream (free); or a kernel called (synchronize, free).
 *   MPI_ERR_OTHER: MPI_Finalize has halted the stream with work left (synchronize, free). */
typedef struct lanyard_host_stream* Lanyard_Host_stream;
#define LANYARD_HOST_STREAM_NULL LANYARD_NULL(Lanyard_Host_stream)
int Lanyard_Host_stream_create(Lanyard_Host_stream* stream);
int Lanyard_Host_stream_launch(Lanyard_Host_stream stream, void (*kernel)(void* argument), void* argument);
int Lanyard_Host_stream_synchronize(Lanyard_Host_stream stream);
int Lanyard_Host_stream_free(Lanyard_Host_stream* stream);

/* ---- Queues (Table I) -------------------------------------------------------------------------------------------- */

/* Makes a queue on a GPU or host stream. A process may have any number of queues, one a stream. Local.
 *
 *   queue: the new queue. Free it by Lanyard_Queue_free before its stream.
 *   type: what kind of stream it is.
 *   stream_address: the address of a Lanyard_Host_stream, a cudaStream_t or a hipStream_t. The handle is copied. The
 *     stream stays the caller's and must outlive the queue.
 *
 * Call it between MPI_Init and MPI_Finalize. The first queue on a GPU loads Lanyard's kernels, which may wait for what
 * the GPU is doing. Buffers may be host memory, or memory of any GPU of the process where the card can do that
 * ("device_memory" of Lanyard_Queue_get_info); GPU kernels reach the latter only.
 *
 * Errors:
 *   MPI_ERR_ARG: the type is unknown, or there is no stream at the address.
 *   LANYARD_ERR_BUSY: the stream has a queue already.
 *   MPI_ERR_UNSUPPORTED_OPERATION: this build or machine has no such streams. The message says what to do.
 *   LANYARD_ERR_NIC: there is no network card, it is out of counters, the stream cannot ring it, or a variable
 *     LANYARD_* is wrong on any rank.
 *   LANYARD_ERR_FAILED: the GPU's driver reports an error. */
typedef struct lanyard_queue* Lanyard_Queue;
#define LANYARD_QUEUE_NULL LANYARD_NULL(Lanyard_Queue)
typedef enum Lanyard_Queue_type {
  LANYARD_QUEUE_HOST = 1, /* stream_address: Lanyard_Host_stream * */
  LANYARD_QUEUE_CUDA = 2, /* stream_address: cudaStream_t * */
  LANYARD_QUEUE_HIP = 3   /* stream_address: hipStream_t * */
} Lanyard_Queue_type;
int Lanyard_Queue_init(Lanyard_Queue* queue, Lanyard_Queue_type type, void* stream_address);

/* Frees a queue. Waits for what is outstanding, as Lanyard_Queue_wait does, and sets *queue to LANYARD_QUEUE_NULL.
 * Local. The stream stays the caller's. Matched requests stay matched, and may be started on another queue. Requests of
 * graphs that were captured on this queue are ordinary ones again; do not replay those graphs any more.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue, or its stream is being captured into a graph.
 *   LANYARD_ERR_BUSY: the wait of a start was never enqueued (the message names the request), a start of a graph or
 *     kernel has not completed, the queue has sets for kernels, or a kernel of a host stream called.
 *   LANYARD_ERR_FAILED, LANYARD_ERR_STALLED: as Lanyard_Queue_wait. The queue is still there; repeat the call. */
int Lanyard_Queue_free(Lanyard_Queue* queue);

/* Waits until everything on a queue has completed. Blocks the calling thread until all that was enqueued on the queue
 * and its stream has completed, starts whose wait was not enqueued included. Starts that a kernel made are waited for
 * by a kernel; this call waits for the kernel. Make this call before you rely on data: a stream may pass the wait for a
 * transfer that has failed.
 *
 * A failed request is told once, by the queue of its last start. From then on nothing waits for it: the stream goes on,
 * and the request's data is undefined. Repeat the call until it returns MPI_SUCCESS; then the buffers are yours again.
 * Free the request and match a new one.
 *
 * Under the strategy sender-flag the call asks the senders of all receives since the last call whether all went well.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue, or its stream is being captured into a graph.
 *   LANYARD_ERR_BUSY: a kernel of a host stream called, which would wait for itself.
 *   LANYARD_ERR_FAILED: an operation failed; the message names its request and the reason. Or the stream's device is
 *     lost.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The message is a stall report. Repeat the call. */
int Lanyard_Queue_wait(Lanyard_Queue queue);

/* Gives figures of a queue and its network card. *info is a new info object, which the caller frees. Numbers are
 * decimal. Local.
 *
 * Of the queue (what graphs and kernels start is not in the numbers):
 *   "stream": host, cuda or hip.
 *   "starts", "waits": how many were enqueued, counted for each request.
 *   "triggers": rings of the card that were enqueued.
 *   "bytes": what sends were started with.
 *
 * Of the process and its card:
 *   "nic": the card's name.
 *   "strategy": target-counter or sender-flag; see LANYARD_STRATEGY in lanyard(7).
 *   "device_memory": yes if buffers may be GPU memory, else no.
 *   "entries_depth", "entries_in_use": deferred-work entries of the card, and how many are taken.
 *   "entries_posted": entries that starts needed so far, those that overflowed included.
 *   "entries_overflowed": of these, what did not fit at its start, and was posted later or run by software.
 *   "entries_by_software": of these, what software ran.
 *   "counters", "regions": counters that this process has open on the card, and memory regions it has registered. A
 *     process takes one counter for matching and one a queue; a matched regular send takes two, a ready send one, a
 *     receive one under target-counter.
 *   "failures": operations that failed so far.
 *
 * Errors:
 *   LANYARD_ERR_QUEUE: not a queue. */
int Lanyard_Queue_get_info(Lanyard_Queue queue, MPI_Info* info);

/* ---- Hints on requests -------------------------------------------------------------------------------------------
 * The MPI Forum's hybrid working group proposes MPI_Request_set_info. */

/* Gives hints to a persistent request, or tells what is in force. Set hints before the request is given to a matching
 * function. Keys that info lacks stay as they are; unknown keys are ignored. Local.
 *
 *   lanyard_exchange: a name, or none. Requests of this process that have the same name and are given to one call of
 *     Lanyard_Matchall or Lanyard_Imatchall become an exchange once all are matched. Start an exchange by one call and
 *     wait for it by one call, in any order and beside any other requests. Its requests share counters: a halo step of
 *     8 sends and 8 receives takes 17 deferred-work entries instead of 32, with ready sends 9 instead of 24. The peers
 *     need no hint.
 *   lanyard_exchange_set: 0, 1 or none. Set 0 and set 1 of one name are the two sets of one exchange, for
 *     double-buffered codes. Start and wait for each set by one call, the sets in turn, set 0 first, each after the
 *     wait for the one before. No clear-to-send is needed then: a halo step takes 9 entries with regular sends. This
 *     holds for a pair whose peer's request is in the same set of such an exchange, if something of the other set goes
 *     the other way; for other pairs clear-to-sends are sent. If no pair is of this kind each set is an exchange by
 *     itself.
 *   lanyard_route: card or none. With card the message goes by the card although GPUs could carry it (LANYARD_PEER).
 *     Kernels, host streams and other GPUs' streams need this to start it. One side's hint is enough.
 *
 * A request has one name and one set: the last hint counts. An exchange asks of the program:
 *
 *   -: No receiver waits for another message of the exchange before it starts to receive: regular sends go out when all
 *     their receivers have started.
 *   -: A ready send to a member promises that the receiver's stream has passed the wait for the exchange's last start
 *     and that the buffer may be written. The receive need not have been started.
 *   -: With two sets the receive buffers belong to the exchange from the match on. Read what a start received, in the
 *     order of the stream, before the next start.
 *   -: The first request that is freed ends the exchange, both sets of it. The others can then only be freed.
 *   -: Members fail together: after a failure the data of all is undefined, and all must be freed and matched anew.
 *   -: Graphs and kernels start no exchange.
 *
 * Lanyard_Request_get_info makes a new info object of what is in force, which the caller frees:
 *
 *   lanyard_route: card once matched, or lane if GPUs carry the messages; mpi before.
 *   lanyard_strategy: target-counter or sender-flag, if the request goes by the card.
 *   lanyard_ready: yes for a ready send, and for a receive that is matched with one.
 *   lanyard_entries: once matched, the deferred-work entries that each start takes. Entries that an exchange has for
 *     all members are counted with one of them.
 *   lanyard_exchange, lanyard_exchange_set: the name and the set in force, or none.
 *   lanyard_exchange_why, lanyard_exchange_set_why: why a hint that was given is not in force.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not a persistent request known to Lanyard; to set hints also one that is matched or being matched.
 *   MPI_ERR_INFO: info is MPI_INFO_NULL.
 *   MPI_ERR_INFO_VALUE: there is no such set or route. */
int Lanyard_Request_set_info(MPI_Request request, MPI_Info info);
int Lanyard_Request_get_info(MPI_Request request, MPI_Info* info);

/* ---- Persistent collectives -------------------------------------------------------------------------------------- */

/* Makes persistent collectives that streams can start. They are MPI 4's (sections 6.13 and 8.8). Where the MPI has
 * MPI_Barrier_init and so on these are the same functions. Open MPI's extension (mpi-ext.h) has the MPIX_ names too:
 * they are Lanyard's calls in a source that includes this file, and in others the MPI's, which cannot be matched. The
 * calls are collective.
 *
 * The request is the MPI's: inactive, for MPI_Start. Once all processes have given it to a matching function it is for
 * Lanyard_Enqueue_start and Lanyard_Enqueue_wait, alone or with others in one call. The status of its match is empty.
 *
 * Every process sends to each that wants something of it: among P processes up to P-1 messages either way. They are an
 * exchange where the card can have one (Lanyard_Request_set_info): a start takes up to 2P-1 deferred-work entries.
 * Barriers and allreduces have two sets of messages for starts in turn, and take P. The hint lanyard_exchange with the
 * value none, given by all processes, makes single requests of the messages, as graphs and kernels need them.
 *
 * Lanyard_Allreduce_init takes MPI's own operations on MPI's own datatypes. The stream combines in the order of ranks,
 * ((x0 op x1) op x2) and so on: the same bits on every process and in every run. The own contribution and the result
 * are both host memory, on a host stream, or memory of one GPU, on a stream of that GPU, which has no long double.
 *
 * Neighbour collectives need a communicator with a topology. In a grid, what goes towards lower coordinates comes from
 * higher ones, though both may be the same process.
 *
 * Errors:
 * The calls give MPI's errors, and MPI_ERR_UNSUPPORTED_OPERATION if the MPI has no persistent collectives. What Lanyard
 * cannot do, the match says; it has then changed nothing, and MPI_Start can still run the collective:
 *   MPI_ERR_OP: an operation of the program, or one that is not defined for the datatype.
 *   MPI_ERR_TYPE: a datatype to reduce that is not MPI's own.
 *   MPI_ERR_COUNT: 2 GiB or more to reduce.
 *   MPI_ERR_NO_MEM: no memory for what the others contribute.
 *   MPI_ERR_UNSUPPORTED_OPERATION: a communicator, a datatype or memory that Lanyard cannot do. */
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

/* ---- Matching (Table II) ----------------------------------------------------------------------------------------- */

/* Matches persistent requests with the peer's. A request is paired for good with exactly one of the peer, by MPI's
 * rules: communicator, rank, tag, wildcards, order of the matching calls. Only requests that are given to a matching
 * function on both sides match. Lanyard_Match blocks until its request is matched, Lanyard_Matchall until all are, in
 * any order.
 *
 *   request, requests: inactive persistent requests. Free a matched one by MPI_Request_free.
 *   status, statuses: source, tag and length of the matched message for a receive, empty for a send. May be
 *     MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
 *
 * Blocking calls in opposite orders on two processes deadlock, as blocking sends would: use Lanyard_Matchall or
 * Lanyard_Imatch. What was given to a matching function makes progress whatever the program does.
 *
 * A receive may be longer than its send. The two sides' datatypes may differ, as MPI allows, and may be freed once the
 * request is made. A datatype with gaps is packed into memory of Lanyard: by the stream, at each start of a send and
 * behind each wait for a receive, which leaves the gaps alone. A host stream packs host memory, a GPU's stream that
 * GPU's. For graphs and sets for kernels a kernel of the program must pack.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not an inactive persistent request known to Lanyard; matched or being matched already; or twice in
 *     the call.
 *   MPI_ERR_TRUNCATE: the matched send is longer than the receive. Both sides are told; both requests are as before.
 *   MPI_ERR_IN_STATUS: Lanyard_Matchall: at least one was not matched. Each status has its code in MPI_ERROR.
 *   MPI_ERR_RANK: the communicator has no such rank.
 *   MPI_ERR_ARG: the peer has another LANYARD_STRATEGY.
 *   LANYARD_ERR_FAILED: the peer has ended, or cannot be reached. A receive from MPI_ANY_SOURCE waits for the others.
 *   LANYARD_ERR_NIC: there is no network card, or a variable LANYARD_* is wrong on any rank.
 *   LANYARD_ERR_NO_ENTRIES: the card is out of counters or regions. Free requests or queues, and repeat.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The request stays in matching: repeat the call, or
 *     free the request, which withdraws its offer.
 *   MPI_ERR_UNSUPPORTED_OPERATION: a buffered send, a partitioned request, a datatype made by MPI_Type_create_darray or
 *     with too many irregular blocks, an inter-communicator, a communicator not made from MPI_COMM_WORLD or
 *     MPI_COMM_SELF, or memory that the card cannot reach. The message says which. */
int Lanyard_Match(MPI_Request* request, MPI_Status* status);
int Lanyard_Matchall(int count, MPI_Request requests[], MPI_Status* statuses);

/* Begins to match persistent requests. The calls are local, do not block, and match by the rules of Lanyard_Match.
 *
 *   requests: may be reused on return.
 *   match_request: an ordinary MPI request for MPI_Test, MPI_Wait and their like, which make progress. It completes
 *     when every request is matched or has failed. It cannot be cancelled (MPI_Cancel gives MPI_ERR_REQUEST). After
 *     MPI_Request_free of it the match goes on.
 *
 * The persistent requests can be neither freed nor matched again before match_request completes. Its status is that of
 * Lanyard_Match for one request, else empty.
 *
 * Errors:
 * Wrong arguments are told at once, and then nothing has begun: the codes are those of Lanyard_Match. The call that
 * completes match_request returns the first failure of a match, or puts it into the status (MPI_Waitall and its like);
 * Lanyard_Is_matched tells which are matched.
 *   LANYARD_ERR_STALLED: from a blocking call such as MPI_Wait: the deadline (LANYARD_DEADLINE_S) passed. Repeat the
 *     call.
 */
int Lanyard_Imatch(MPI_Request* request, MPI_Request* match_request);
int Lanyard_Imatchall(int count, MPI_Request requests[], MPI_Request* match_request);

/* Asks whether a request is matched. Sets *flag to 1 if it is, else to 0. Makes progress, but does not complete the
 * match request. A loop around the call does not end if the match fails. Local.
 *
 * Errors:
 *   MPI_ERR_REQUEST: not a persistent request known to Lanyard. */
int Lanyard_Is_matched(MPI_Request request, int* flag);

/* ---- Enqueuing (Table III) ---------------------------------------------------------------------------------------
 * The calls are local and do not block the caller, with two exceptions: the stream has four million things in its
 * queue, or the card has no free entry and overflow is off (LANYARD_OVERFLOW). Then the caller helps until there is
 * room.
 *
 * MPI's calls on a matched request: MPI_Start and MPI_Startall give MPI_ERR_REQUEST from matching on. MPI_Request_free,
 * MPI_Test*, MPI_Wait*, MPI_Cancel and MPI_Request_get_status give it while the last start has not completed or its
 * wait was not enqueued (Lanyard_Queue_wait sees to the former). MPI_Request_free frees at once what the card no longer
 * uses, and the rest later.
 *
 * Starts and waits that are enqueued while the queue's stream is captured into a CUDA or HIP graph are made by every
 * replay of the graph. Each start must be followed by its wait within the capture. From then on the request belongs to
 * graphs captured on this queue, until it or the queue is freed: other starts and waits give MPI_ERR_REQUEST. Launch
 * the graphs on the queue's stream, one at a time. */

/* Enqueues the next transfer of matched requests. It starts when the stream gets there: a send sends what its buffer
 * holds then, a receive lets its buffer be written. From the call until the stream has passed the wait, do not write a
 * send's buffer and do not touch a receive's. Lanyard_Enqueue_startall starts all at the same point of the stream, all
 * or none.
 *
 * The request must be matched. Its previous start must have been waited for on a queue, and have completed if that was
 * another queue. Of an exchange all members must be in the call.
 *
 * A send of MPI_Send_init or MPI_Ssend_init waits in the card for its receive to start; the stream goes on. A ready
 * send (MPI_Rsend_init) does not wait: the program promises that its receive has been started. If not, data is
 * undefined; LANYARD_CHECK=on finds messages that came before the start of their receive was enqueued.
 *
 * Errors:
 *   MPI_ERR_REQUEST: the request is not matched, not waited for, belongs to graphs or kernels, stands in the call
 *     twice, or can count no further start. The message says which.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_NO_ENTRIES: overflow is off (LANYARD_OVERFLOW) and the starts without a wait, with this one, cannot fit
 *     into the card's deferred-work entries.
 *   LANYARD_ERR_FAILED: an operation of the request failed before; or, with LANYARD_CHECK=on, a ready send came too
 *     early.
 *   LANYARD_ERR_STALLED: there was no room until the deadline (LANYARD_DEADLINE_S).
 *   MPI_ERR_UNSUPPORTED_OPERATION: the stream is being captured and the card takes no deferred work back, or has no
 *     doorbell that a kernel rings; the stream cannot ring the card; or the datatype has gaps, or the request combines,
 *     in memory that the stream does not pack. */
int Lanyard_Enqueue_start(Lanyard_Queue queue, MPI_Request* request);
int Lanyard_Enqueue_startall(Lanyard_Queue queue, int count, MPI_Request requests[]);

/* Enqueues a wait for the last start of requests. The stream goes on when that start has completed: a receive's data
 * has arrived, a send's buffer may be written. Enqueue the wait on the queue of the start. Then the request may be
 * started again on this queue. Lanyard_Enqueue_waitall waits for all, all or none being enqueued.
 *
 * A stream may pass the wait for a transfer that has failed, and waits for ever for a peer that has ended.
 * Lanyard_Queue_wait tells of both and lets the stream go on.
 *
 * Errors:
 *   MPI_ERR_REQUEST: the request is not matched, has no start to wait for on this queue, belongs to graphs or kernels,
 *     or stands in the call twice. The message says which.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_STALLED: the stream had no room until the deadline (LANYARD_DEADLINE_S). */
int Lanyard_Enqueue_wait(Lanyard_Queue queue, MPI_Request* request);
int Lanyard_Enqueue_waitall(Lanyard_Queue queue, int count, MPI_Request requests[]);

/* ---- Starts from kernels ----------------------------------------------------------------------------------------- */

/* Makes and frees sets of requests that kernels start and wait for. Kernels on the queue's stream do so by
 * Lanyard_Device_startall and Lanyard_Device_waitall. Local; may wait for the device.
 *
 *   requests: matched. Their last starts were waited for and have completed. A request may be in one set.
 *   set: an address for kernels. Lanyard_Device_requests_free sets it to NULL.
 *
 * Until the set is freed nothing else starts the requests, and they may not be freed. A thread of Lanyard keeps the
 * card supplied with their deferred work. Lanyard_Device_requests_free makes them ordinary requests again; the kernels
 * of the set must have ended (Lanyard_Queue_wait). A queue with sets cannot be freed.
 *
 * A kernel on a host stream that waits needs LANYARD_DEADLINE_S to be told of failures and stalls: it then runs on the
 * stream's own thread.
 *
 * Errors:
 *   MPI_ERR_REQUEST: a request is not matched, its last start was not waited for or has not completed, it belongs to a
 *     set or a graph, or stands in the call twice; or the stream is being captured.
 *   MPI_ERR_ARG: not a set of this queue.
 *   LANYARD_ERR_QUEUE: not a queue.
 *   LANYARD_ERR_FAILED: an operation of a request failed before.
 *   LANYARD_ERR_NO_ENTRIES: the card is out of counters; or overflow is off and its deferred-work entries do not
 *     suffice.
 *   MPI_ERR_UNSUPPORTED_OPERATION: the card takes no deferred work back, or has no doorbell that a kernel rings, as
 *     cards over libfabric; or a request's datatype has gaps, or it combines (Lanyard_Allreduce_init).
 *   LANYARD_ERR_BUSY: Lanyard_Device_requests_free: a start has not completed. Repeat the call. */
int Lanyard_Device_requests_create(Lanyard_Queue queue, int count, MPI_Request requests[],
                                   Lanyard_Device_requests** set);
int Lanyard_Device_requests_free(Lanyard_Queue queue, Lanyard_Device_requests** set);

/* ---- Error classes beyond MPI's ---------------------------------------------------------------------------------- */

/* Gives Lanyard's error classes. MPI assigns them at run time, so compare them with the result of MPI_Error_class after
 * MPI_Init; they cannot be labels of a switch, and need not be the same on all ranks. An error code and its message
 * stay right until 256 other errors have happened. Local; does not block.
 *
 *   LANYARD_ERR_QUEUE: the handle is not a queue of this process, or its stream is being captured into a graph.
 *   LANYARD_ERR_BUSY: the object is in use, or a kernel of a host stream calls what would wait for itself.
 *   LANYARD_ERR_NO_ENTRIES: the card has too few deferred-work entries, counters or regions.
 *   LANYARD_ERR_FAILED: an operation failed: the peer has ended, cannot be reached or has freed its request, memory is
 *     unmapped, the GPU is lost.
 *   LANYARD_ERR_STALLED: the deadline (LANYARD_DEADLINE_S) passed. The message is a stall report; a report that does
 *     not fit into an error string is on stderr as a whole. Repeat the call.
 *   LANYARD_ERR_NIC: there is no usable network card, or a variable LANYARD_* is wrong.
 *
 * Returns:
 * The class; MPI_ERR_OTHER before MPI_Init, after MPI_Finalize and for an unknown kind. No handler is invoked. */
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
