#include "nicsim/deterministic/mutants.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "nicsim/deterministic/config.h"
#include "nicsim/deterministic/fuzz.h"
#include "nicsim/deterministic/random_config.h"
#include "tools/mutants/mutant.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

// The order is the one in which the hunt tries them.
enum Workload : uint32_t {
  kHalo,     // what applications do; the host runs ahead, so that posts are late and entries of several starts wait
  kSingles,  // several rings a queue and iteration: rings coalesce, and thresholds are passed by more than one
  kPieces,   // several writes a message: completions by two an iteration, entries of equal thresholds
  kReady,    // ready sends
  kTight,    // fewer entries than a start needs, so that the overflow has to run operations itself
  kFailures,
  kMisuse,  // calls that must be refused
  kRoam,    // a request moves on to another stream while the first has not seen it complete
  kFree,    // requests are freed as early as they may be
  kFlag,    // strategy B, with acknowledgements that come before the data where nobody asked for delivery
  kCopied,  // strategy C, likewise
  kCopiedFailures,
  kElsewhere,  // a start on another stream is repeated until the last one has completed
  kLengths,    // none, whole pieces, and a receive that is longer than its message
  kEqualTags,
  kGraphs,        // after a plain start, with few entries; what was captured is freed and captured anew
  kGraphsCopied,  // under strategy C, with words and counters that others have used
  kLeft,          // a request whose failure was told is freed while its stream runs, and another one matched
  kDriver,        // these five: over the driver for Slingshot
  kDriverTight,   // the card says that it has no entry
  kDriverFailures,
  kDriverFlag,
  kDriverLeft,
  kMail,            // these two: messages of the control channel by card, of several slots
  kMailTight,       // the card is full every so often
  kWithdrawn,       // offers of equal numbers
  kAtOnceFailures,  // over the driver with no entry, so that operations run at once, and fail
  kSockets,         // these four: over the driver with the sockets provider's rules
  kSocketsFailures,
  kSocketsEmpty,
  kSocketsFar,     // counters at the end of what that provider's can count
  kGaps,           // these four: the stream packs and unpacks buffers with gaps
  kGapsFree,       // ... of requests that are freed as early as they may be
  kGapsElsewhere,  // ... a receive goes on on another stream as early as it may
  kGapsLengths,    // ... and is longer than its message
  kDriverFlagFailures,
  kMerged,        // these three: the requests of a rank are an exchange
  kMergedReady,   // ... with ready sends among them, and of pairs whose other sides are single requests
  kMergedPart,    // ... parts of which are to be refused
  kSets,          // these five: with two sets
  kSetsTurn,      // ... that are started out of turn
  kSetsOneWay,    // ... between ranks of which only one sends
  kSetsOneSide,   // ... of one rank alone
  kSetsFailures,  // ... over a driver, which cannot take back what waits
  kMergedDriver,  // likewise, with clear-to-sends
  kAged,          // counters near their 48 bits, and one start more than they can count
  kWildcards,     // a receive of any tag, and one that its second offer fits as well
  kTags,          // receives that come after their offers, in another order
  kCut,           // the way between two cards fails as mail goes over it
  kRoamFlag,      // a receive goes on on another stream, and the first queue is waited for; what its sender wrote fails
  kUneven,        // of the two ranks' cards one takes shorter messages
  kCaptureAlone,  // a capture without a wait, whose request is freed
  kTooShort,      // a receive that is too short, and is posted again
  kReserves,      // two queues, one after the other, without overflow
  kMergedEnded,   // an exchange that has lost a member
  kMergedFlag,    // an exchange, of messages of several pieces, whose senders raise flags
  kMergedAsked,   // ... a receiver waits for the answer before it sends what the sender's exchange waits for; a driver
  kCaptureGaps,   // captures that pack and unpack
  kMergedAlone,   // an exchange's sends to two, of which one fails after it has landed, and whose receives are single
  kMergedRoam,    // an exchange goes on on another stream as early as it may
  kMergedGaps,    // ... has a member that is packed
  kMergedTight,   // ... finds few entries
  kCollectives,   // collectives, whose members are packed and unpacked
  kFlush,         // these four: strategy D, on cards that count what is not in memory yet; a message has several pieces
  kFlushFree,     // ... requests are freed as early as they may be
  kFlushGraphs,   // ... graphs start them
  kFlushMerged,   // ... the requests of a rank are an exchange
  kLanes,         // these six: pairs go by lanes, or by the card after all; they are freed, and matched anew
  kLanesWithdrawn,  // ... or taken back, on both sides
  kLanesLonger,     // ... receives are longer than their messages
  kLanesBeside,     // ... on another stream, beside one that waits
  kLanesKills,      // ... and the other process dies
  kLanesMerged,     // ... and beside it another member of an exchange fails
  kLanesSets,       // two sets, some of whose messages go by lanes
};

constexpr const char* kWorkloads[] = {
    "2ranks,2req-each-way,3iter",
    "2ranks,2req-each-way,2iter,single-starts",
    "2ranks,1req-each-way,2iter,bytes=24,max-message=16",
    "2ranks,2req-each-way,2iter,ready",
    "2ranks,2req-each-way,2iter,depth=2,stale-reads",
    "2ranks,1req-each-way,2iter,failures",
    "2ranks,2req-each-way,2iter,queues=2,misuse",
    "2ranks,1req-each-way,3iter,roam",
    "2ranks,1req-each-way,2iter,free",
    "2ranks,1req-each-way,2iter,sender-flag,early-acks,bytes=24,max-message=16",
    "2ranks,1req-each-way,2iter,write-back,early-acks",
    "2ranks,1req-each-way,2iter,write-back,bytes=24,max-message=16,failures",
    "program=0-1:16t1/s0_w0_q1_s0+_w0_q0_y_q1_y/s0r_w0r_s0r_w0r_y",
    "program=0-1:16t1p20_0-1:0t2_0-1:32t3/p0_p1_p2_s0.1.2_w0.1.2_p1_p2_s1.2_w1.2_y/s0r.1r.2r_w0r.1r.2r_u0_u1_u2_"
    "s1r.2r_w1r.2r_u1_u2_y,max-message=16",
    "program=0-1:8t1_0-1:16t1/m0.1_x0.1_p0_p1_s0.1_w0.1_y/m0r.1r_x0r.1r_s0r.1r_w0r.1r_u0_u1_y",
    "program=0-1:24t1/p0_s0_w0_y_b_p0_s0_w0_e_l_l_y_f0_m0_x0_b_p0_s0_w0_e_l_l_y_f0_y/s0r_w0r_u0_y_b_s0r_w0r_u0_e_l_l_y_"
    "f0r_m0r_x0r_b_s0r_w0r_u0_e_l_l_y_f0r_y,depth=4,total-bells,max-message=16",
    "program=0-1:24t1/p0_s0_w0_y_b_p0_s0_w0_e_l_l_y_f0_m0_x0_b_p0_s0_w0_e_l_l_y_f0_y/s0r_w0r_u0_y_b_s0r_w0r_u0_e_l_l_y_"
    "f0r_m0r_x0r_b_s0r_w0r_u0_e_l_l_y_f0r_y,total-bells,write-back,max-message=16",
    "program=0-1:16t1_0-1:16t2/m0_x0_s0_w0_s0_w0_s0_w0_y_f0_m1_x1_s1_w1_y/m0r_x0r_s0r_w0r_s0r_w0r_s0r_w0r_m1r_x1r_s1r_"
    "w1r_y,failures",
    "2ranks,2req-each-way,3iter,cxi-driver",
    "2ranks,2req-each-way,2iter,depth=3,cxi-driver,no-room",
    "2ranks,1req-each-way,2iter,cxi-driver,failures",
    "2ranks,1req-each-way,2iter,sender-flag,cxi-driver,early-acks",
    "program=0-1:16t1_0-1:16t2/m0_x0_s0_w0_s0_w0_s0_w0_y_f0_m1_x1_s1_w1_y/m0r_x0r_s0r_w0r_s0r_w0r_s0r_w0r_y_f0r_m1r_"
    "x1r_s1r_w1r_y,cxi-driver,failures",
    "2ranks,1req-each-way,1iter,mail-by-card",
    "2ranks,1req-one-way,1iter,in-flight=1,mail-by-card",
    "program=0-2:8t1_1-2:8t2/m0_t0/m1_t1/",
    "2ranks,2req-each-way,2iter,depth=5,cxi-driver,failures,no-room,stolen-entries",
    "2ranks,2req-each-way,3iter,sockets-driver",
    "2ranks,2req-each-way,2iter,depth=4,sockets-driver,failures",
    "2ranks,1req-each-way,2iter,bytes=0,sockets-driver",
    "2ranks,1req-each-way,3iter,age=536870911,sockets-driver",
    "2ranks,2req-each-way,2iter,gaps",
    "2ranks,1req-each-way,2iter,gaps,free",
    "program=0-1:16t1xy/s0_w0_s0_w0_y/s0r_w0r_q1_s0r+_w0r_q0_y_q1_y",
    "program=0-1:16t1p8xy_0-1:7t2p4y/p0_p1_s0.1_w0.1_y/s0r.1r_w0r.1r_u0_u1_y",
    "2ranks,1req-one-way,3iter,sync,ready,sender-flag,cxi-driver,failures",
    "2ranks,2req-each-way,3iter,merged",
    "program=0-1:16t1ri1_1-0:16t2j1_0-1:16t3i1/a0_p0_p2_s0.1r.2_w0.1r.2_u1_a0_p0_p2_s2.0.1r_w0.1r.2_u1_y/"
    "s0r_o0_p1_s1.2r_w0r.1.2r_u0_u2_s0r_o0_p1_s1.2r_w0r.1.2r_u0_u2_y",
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0-_s0.1r_w1r-_w0.1r_u1_p0_s1r-_s1r.0_w0-_w0.1r_u1_y/"
    "s0r_p1_s1_w0r.1_u0_s0r_p1_s1_w0r.1_u0_y",
    "2ranks,2req-each-way,3iter,two-sets",
    "program=0-1:16t1i1aj1a_1-0:16t2i1aj1a_0-1:16t3i1bj1b_1-0:16t4i1bj1b/p0_p2_s2.3r-_s0.1r_s2.3r-_w0.1r_u1_s0.1r-_"
    "s2.3r_w2.3r_u3_s2.3r-_y/p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_y",
    "2ranks,2req-one-way,3iter,two-sets",
    "program=0-1:16t1i1a_1-0:16t2j1a_0-1:16t3i1b_1-0:16t4j1b/p0_s0.1r_w0.1r_u1_p2_s2.3r_w2.3r_u3_p0_s0.1r_w0.1r_u1_y/"
    "p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_p1_s0r.1_w0r.1_u0_y",
    "program=0-1:8t1i1aj1a_1-0:8t2i1aj1a_0-2:8t3i1aj1a_2-0:8t4i1aj1a_0-1:8t5i1bj1b_1-0:8t6i1bj1b_0-2:8t7i1bj1b_"
    "2-0:8t8i1bj1b/p0_p2_s0.2.1r.3r_w0.2.1r.3r_u1_u3_p4_p6_s4.6.5r.7r_w4.6.5r.7r_u5_u7_p0_p2_s0.2.1r.3r_w0.2.1r.3r_"
    "u1_u3_p4_p6_s4.6.5r.7r_w4.6.5r.7r_u5_u7_y/p1_s0r.1_w0r.1_u0_p5_s4r.5_w4r.5_u4_p1_s0r.1_w0r.1_u0_p5_s4r.5_w4r.5_"
    "u4_y/p3_s2r.3_w2r.3_u2_p7_s6r.7_w6r.7_u6_p3_s2r.3_w2r.3_u2_p7_s6r.7_w6r.7_u6_y,failures,cxi-driver",
    "3ranks,1req-each-way,5iter,merged,failures,cxi-driver",
    "2ranks,1req-each-way,2iter,beyond,age=140737488355325",
    "program=0-1:8t1g_0-1:16t1/m0.1_x0.1_p0_p1_s0.1_w0.1_y/m0r.1r_x0r.1r_s0r.1r_w0r.1r_u0_u1_y",
    "program=0-1:8t1_0-1:8t2/m0.1_x0.1_p0_p1_s0.1_w0.1_y/m1r_x1r_m0r_x0r_s0r.1r_w0r.1r_u0_u1_y",
    "program=0-1:16t1_0-1:16t2/m0_x0_s0_w0_y_m1_x1_y/m0r_x0r_s0r_w0r_y_m1r_x1r_y,mail-by-card,failures,cut-mail",
    "program=0-1:16t1/s0_w0_s0_w0_y/s0r_w0r_c0r_q1_s0r_w0r_q0_y_q1_y,sender-flag,failures",
    "2ranks,1req-each-way,2iter,bytes=33,max-message=16,uneven",
    "program=0-1:8t1_0-1:8t2/m0.1_x0_b_s0_e_f0_x1_b_s1_w1_e_l_y/m0r.1r_x1r_s1r_w1r_y",
    "program=0-1:16t1_0-1:9t1h3g/m1_x1-_m0.1_x0_x1-_s0_w0_y/m1r_x1r-_m0r.1r_x0r_x1r-_s0r_w0r_y",
    "program=0-1:8t1_0-1:8t2/s0_w0_y_q1_s1_w1_y_q0_s0_w0_y/s0r_w0r_y_q1_s1r_w1r_y_q0_s0r_w0r_y,depth=3,no-overflow",
    "program=0-1:16t1i1_0-1:16t2i1/m0.1_x0.1_s0.1_w0.1_y_f0_s1-_y/m0r.1r_x0r.1r_s0r.1r_w0r.1r_y",
    "2ranks,2req-each-way,3iter,merged,sender-flag,early-acks,bytes=24,max-message=16",
    "program=0-1:16t1i1_1-0:16t2j1/p0_s0.1r_w0.1r_u1_y/s0r_w0r_y_u0_p1_s1_w1_y,sender-flag,cxi-driver",
    "program=0-1:16t1xy/p0_s0_w0_c0_b_p0_s0_w0_e_l_l_y_f0/s0r_w0r_u0_c0r_b_s0r_w0r_u0_e_l_l_y_f0r",
    "program=0-1:16t1i1_0-2:16t2i1/s0.1_w0.1_s0.1_w0.1_y/s0r_w0r_s0r_w0r_y/s1r_w1r_s1r_w1r_y,failures",
    "program=0-1:16t1i1_0-1:16t2i1/s0.1_w0.1_s0.1_w0.1_q1_s0.1+_w0.1_q0_y_q1_y/"
    "s0r.1r_w0r.1r_s0r.1r_w0r.1r_s0r.1r_w0r.1r_y",
    "program=0-1:16t1i1xy_0-1:16t2i1/p0_p1_s0.1_w0.1_p0_p1_s0.1_w0.1_p0_p1_s0.1_w0.1_y/"
    "s0r.1r_w0r.1r_u0_u1_s0r.1r_w0r.1r_u0_u1_s0r.1r_w0r.1r_u0_u1_y",
    "2ranks,2req-each-way,3iter,merged,depth=4,stale-reads",
    "2ranks,1req-each-way,3iter,gaps,collectives",
    "2ranks,1req-each-way,2iter,bytes=24,loopback-flush,late-data,max-message=16",
    "2ranks,1req-each-way,2iter,free,loopback-flush,late-data",
    "program=0-1:24t1/p0_s0_w0_y_b_p0_s0_w0_e_l_l_y_f0_m0_x0_b_p0_s0_w0_e_l_l_y_f0_y/s0r_w0r_u0_y_b_s0r_w0r_u0_e_l_l_y_"
    "f0r_m0r_x0r_b_s0r_w0r_u0_e_l_l_y_f0r_y,loopback-flush,late-data,total-bells,max-message=16",
    "2ranks,2req-each-way,3iter,merged,loopback-flush,late-data",
    "program=0-1:8t1/m0_x0_p0_s0_w0_y_f0_m0_x0_p0_s0_w0_y_f0/m0r_x0r_s0r_w0r_u0_y_f0r_m0r_x0r_s0r_w0r_u0_y_f0r,lanes,"
    "no-way",
    "program=0-1:8t1/m0_t0/m0r_t0r,lanes,no-way",
    "program=0-1:8t1p8_1-0:8t2p4/m0.1r_x0.1r_p0_s0.1r_w0.1r_u1_y_f0.1r/m0r.1_x0r.1_p1_s0r.1_w0r.1_u0_y_f0r.1,lanes",
    "program=0-1:8t1_0-1:8t2/m0.1_x0.1_s0_w0_y_f0_q1_s1_w1_q0_m0_x0_s0_w0_y_f0_q1_y_f1/m0r.1r_x0r.1r_s0r_w0r_y_f0r_"
    "m0r_x0r_s0r_w0r_y_f0r_q1_s1r_w1r_y_f1r,lanes",
    "program=0-1:8t1_1-0:8t2/m0.1r_x0.1r_s0_w0_s0_w0_s1r_w1r_y_f0.1r/m0r.1_x0r.1_s0r_w0r_s0r_w0r_s1_w1_y_f0r.1,lanes,"
    "kills",
    "program=0-1:8t1j1_1-0:8t2i1/m0.1r_x0.1r_s1r_w1r_s0_w0_y_f0.1r/"
    "m0r.1_x0r.1_s0r.1_w0r.1_y_f0r.1,lanes,no-way,failures",
    "program=0-1:8t1i1aj1a_1-0:8t2i1aj1a_0-1:8t3i1bj1b_1-0:8t4i1bj1b/m0.1r.2.3r_x0.1r.2.3r_p0_s0.1r_w0.1r_u1_p2_s2.3r_"
    "w2.3r_u3_p0_s0.1r_w0.1r_u1_y/m0r.1.2r.3_x0r.1.2r.3_p1_s0r.1_w0r.1_u0_p3_s2r.3_w2r.3_u2_p1_s0r.1_w0r.1_u0_y,"
    "lanes,no-way",
    "random programs",
};
constexpr uint32_t kRandom = std::size(kWorkloads) - 1;
constexpr uint64_t kSchedulesAProgram = 32;

constexpr Mutant kMutants[] = {
    {1, "threshold 2i-1", "a write waits for 2i-1: its start or its clear-to-send, not both", "threshold_of (plan.cc)",
     kHalo, nullptr},
    {2, "fixed threshold 2", "a write waits for 2 in every iteration", "Queue::lower", kHalo, nullptr},
    {3, "CTS at threshold 0", "a clear-to-send waits for nothing", "Queue::lower", kHalo, nullptr},
    {4, "CTS before unpack(i-1)", "clear-to-send i goes out at the ring of start i-1", "Queue::lower", kHalo, nullptr},
    {5, "double CTS", "a start of a receive sends two clear-to-sends", "plan_receive (plan.cc)", kHalo, nullptr},
    {6, "CTS credited to the wrong sender", "clear-to-sends of all sends are counted by the first one's counter",
     "Endpoint::open_resources", kHalo, nullptr},
    {7, "shared trigger counter for sends", "all regular sends of a process have one trigger counter",
     "Endpoint::open_resources", kHalo, nullptr},
    {8, "trigger before pack", "the host rings when it enqueues the start, not the stream when it gets there",
     "Queue::lower", kHalo, nullptr},
    {9, "local completion tied to the trigger", "a send's done word grows when its write is triggered",
     "tell_stream (plan.cc)", kHalo, nullptr},
    {10, "receive flag before data", "a receive's done word grows when the first pieces have landed",
     "plan_receive (plan.cc)", kPieces, nullptr},
    {11, "receive threshold i-1", "a receive's done word grows one message early", "threshold_of (plan.cc)", kHalo,
     nullptr},
    {12, "wait ==", "a stream waits until a done word is equal to the target, not at least", "StepStream::ready", kRoam,
     nullptr},
    {13, "wait target not advanced", "every wait is for the first iteration", "Queue::wait", kHalo, nullptr},
    {14, "ready send to an unready receiver", "a regular send goes out as a ready one, though nothing was promised",
     "plan_send (plan.cc)", kHalo, nullptr},
    {15, "second start without wait", "a start is accepted while the last one has no wait", "Queue::check_start",
     kMisuse, nullptr},
    {16, "completion word reset", "a start sets the done word to what it is when the last start has completed",
     "Queue::lower", kHalo, nullptr},
    {17, "free without drain", "a request is freed though its last start has not completed", "Endpoint::free_request",
     kFree, nullptr},
    {18, "wait on another queue", "a wait is accepted on a queue that the request was not started on",
     "Queue::check_wait", kMisuse, nullptr},
    {19, "fire only on ==", "an entry fires only when its counter is equal to the threshold", "is_met (nic_model.cc)",
     kSingles, nullptr},
    {20, "already met at post", "a condition that is met when the entry is posted is not looked at", "NicModel::post",
     kHalo, nullptr},
    {21, "fires twice", "an entry that has fired stays among those that may fire", "NicModel::fire", kHalo, nullptr},
    {22, "out of threshold order", "the entry posted last is looked at first, whatever its threshold",
     "EntryTable::add", kHalo, nullptr},
    {23, "slot leak", "an entry that has fired does not become free", "EntryTable::release", kHalo, nullptr},
    {24, "slot freed before fire", "an entry counts as free once its condition is met", "EntryTable::make_ready", kHalo,
     nullptr},
    {25, "errors excluded from the trigger", "thresholds are compared with successes alone", "is_met (nic_model.cc)",
     kFailures, nullptr},
    {26, "errors reported as success", "an operation that failed counts as done and leaves no record",
     "NicModel::finish", kFailures, nullptr},
    {27, "failed slot never freed", "an operation that failed keeps its place among those under way",
     "NicModel::complete", kFailures, nullptr},
    {28, "lost coalesced doorbell", "rings that land together count as one", "NicModel::ring", kSingles, nullptr},
    {29, "stale read taken as fresh", "the overflow looks at a trigger once and takes its value for final",
     "Overflow::run_fired", kTight, nullptr},
    {30, "descriptor read after mutation",
     "the NIC reads descriptors when they arrive, from an array that the core has filled again", "StepNic::post", kHalo,
     nullptr},
    {31, "head-of-line bypass", "the entry that became ready last fires first", "EntryTable::make_ready", kHalo,
     nullptr},
    {32, "48-bit wrap", "a start whose threshold passes 48 bits is taken, and the NIC cuts the threshold",
     "Queue::check_start, EntryTable::add", kAged, nullptr},
    {33, "flag tied to the trigger", "a receive's done word is raised when the write is triggered",
     "raise_flag (plan.cc)", kFlag, nullptr},
    {34, "flag on transmit-complete", "writes complete when they have left, and the flag does not wait for more",
     "plan_send (plan.cc)", kFlag, nullptr},
    {35, "flag after the first piece", "the flag waits for one write of several", "raise_flag (plan.cc)", kFlag,
     nullptr},
    {36, "double flag", "a start of a send raises the receive's done word twice", "plan_send (plan.cc)", kFlag,
     nullptr},
    {37, "failures let waits pass", "a send waits for its counter's word as a whole, which a failure makes large",
     "Queue::wait", kCopiedFailures, nullptr},
    {38, "no copy asked for", "the flag does not have its counter copied to memory", "raise_flag (plan.cc)", kCopied,
     nullptr},
    {39, "copied when fired", "the counter is copied when the flag leaves, not when it has arrived", "NicModel::start",
     kCopied, nullptr},
    {40, "copied before it counted", "the counter is copied before the operation that asked for it is counted",
     "NicModel::finish", kCopied, nullptr},
    {41, "roams too early", "a start is accepted though the last one goes on on another queue", "Queue::check_start",
     kElsewhere, nullptr},
    {42, "the last one rings for all", "the queue's trigger is rung only where the last request of a start shares it",
     "Queue::start", kHalo, nullptr},
    {43, "pieces of the buffer", "a receive counts as many pieces as its buffer has, not as the message has",
     "plan_receive (plan.cc)", kLengths, nullptr},
    {44, "last piece by remainder", "a message of whole pieces ends with an empty one", "plan_send (plan.cc)", kLengths,
     nullptr},
    {45, "base added to every threshold",
     "under write-back a trigger's thresholds start where the completion counter does", "threshold_of (plan.cc)",
     kGraphsCopied, nullptr},
    {46, "overflow one late", "the overflow runs an operation when its trigger has passed the threshold",
     "Overflow::run_fired", kTight, nullptr},
    {47, "unlinked from the front", "an entry that leaves the middle of a list takes those before it along",
     "EntryTable::unlink", kHalo, nullptr},
    {48, "one entry a count", "a counter that grows makes one entry ready, however many wait for that value",
     "NicModel::release_ready", kHalo, nullptr},
    {49, "taken back and still in use", "a counter or region that an entry named stays in use when that is taken back",
     "NicModel::take_back", kGraphs, nullptr},
    {50, "nothing is not counted", "a message of no bytes is not counted where it lands", "NicModel::landed", kLengths,
     nullptr},
    {51, "takes one back", "cancel takes back one of the entries that wait for a counter", "NicModel::cancel", kGraphs,
     nullptr},
    {52, "waits for one of several", "under write-back a captured wait counts one completion an iteration",
     "Queue::record_wait", kGraphsCopied, nullptr},
    {53, "sum from zero", "a captured start stores the sum of its own rings, not of all that its bell has had",
     "StandingOrders::begin", kGraphs, nullptr},
    {54, "told again", "every failure of a request is told, not the first alone", "FailureBook::add", kFailures,
     nullptr},
    {55, "waits from the first", "a captured wait counts from the request's first start, not from the capture",
     "StandingOrders::begin", kGraphs, nullptr},
    {56, "the last receive first", "of two receives that fit the later one is matched", "Matcher::handle", kEqualTags,
     nullptr},
    {57, "rings for the next one", "the trigger of a request that failed is given away while its stream will ring it",
     "Endpoint::close_resources", kLeft, nullptr},
    {58, "word of a failed request", "the done word of a request that failed is given away",
     "Endpoint::close_resources", kLeft, nullptr},
    {59, "standing threshold from the start",
     "a standing request's own trigger is expected to have counted what it was "
     "not there for",
     "StandingOrders::hand_over", kGraphs, nullptr},
    {60, "left on the card",
     "what waits for a standing request's completion counter is not taken back when it is freed", "StandingOrders::end",
     kGraphs, nullptr},
    {61, "counts kept", "a stream's counts are not given back", "StandingOrders::end", kGraphs, nullptr},
    {62, "counted by the card and the driver", "the driver counts deferred work that the card has counted",
     "OfiNic::finish", kDriver, nullptr},
    {63, "error read as success", "what the queue reports as failed ends like what has succeeded",
     "OfiNic::read_completions", kDriverFailures, nullptr},
    {65, "commands left behind", "who ends its drive does not look for what was pushed meanwhile", "OfiNic::progress",
     kDriver, nullptr},
    {66, "run at once, not counted", "deferred work that ran without an entry is taken for counted by the card",
     "OfiNic::finish", kDriverTight, nullptr},
    {67, "run at once, not due", "work that finds no entry runs before its trigger has got there",
     "OfiNic::run_at_once", kDriverTight, nullptr},
    {68, "held for ever", "what is held is offered again with the next command only", "OfiNic::drive", kDriverTight,
     nullptr},
    {69, "delivery not asked for", "operations that are to be delivered complete when they have left",
     "flags_of (work.cc)", kDriverFlag, nullptr},
    {70, "confirmed unread", "all is said to be over without a look at the queue", "OfiNic::confirms", kDriverFailures,
     nullptr},
    {71, "recorded, not counted", "a failure leaves its record, and failures() does not grow",
     "OfiNic::remember_failure", kDriverFailures, nullptr},
    {72, "credit of another kind", "what ran without an entry gives an entry back", "OfiNic::release", kDriverTight,
     nullptr},
    {74, "failure kept to itself", "the other side of a pair is not told of a failure", "Matcher::tell_failures",
     kFailures, nullptr},
    {75, "over at the first word",
     "a request whose other side was freed fails, though that took part in its last start", "Endpoint::end_peer", kFree,
     nullptr},
    {76, "bad news forgotten", "what waits for a request that has failed goes on waiting", "Endpoint::end_peer",
     kFailures, nullptr},
    {77, "started alone", "a request can be started though its other side has failed", "Queue::check_start", kFailures,
     nullptr},
    {78, "withdrawn for another", "of offers of equal numbers that of another process is withdrawn",
     "Matcher::withdrawn", kWithdrawn, nullptr},
    {79, "a slot too many", "a slot is written again before its credit has come", "ControlChannel::hand_on", kMail,
     nullptr},
    {80, "one credit for several", "however many slots were taken, one credit is given", "ControlChannel::hand_on",
     kMail, nullptr},
    {81, "announced in vain", "a slot counts as announced though the card had no room for that",
     "ControlChannel::write_next", kMailTight, nullptr},
    {82, "last part first", "a part of a long message is put before those that came earlier",
     "ControlChannel::take_slot", kMail, nullptr},
    {83, "slots left behind", "the memory of outgoing slots stays registered", "ControlChannel::~ControlChannel", kMail,
     nullptr},
    {90, "failed at once, not counted", "the failure of deferred work that ran without an entry is taken for counted",
     "OfiNic::fail", kAtOnceFailures, nullptr},
    {91, "failed, and counted as success", "the end of failed work that is not reported counts as a success",
     "OfiNic::fail", kSocketsFailures, nullptr},
    {92, "failed without its chain", "failed work that is not reported does not fire what waits for its end",
     "OfiNic::fail", kSocketsFailures, nullptr},
    {93, "refused and forgotten", "work that the provider refuses is let go of without a word", "OfiNic::hand_over",
     kDriverFailures, nullptr},
    {94, "failed for now", "work that the provider refuses for now fails when it is due", "OfiNic::try_to_give",
     kDriverTight, nullptr},
    {95, "nothing goes to the memory", "the word that stands for no bytes is written to the region itself",
     "Work::describe_write", kSocketsEmpty, nullptr},
    {96, "ended, and not counted", "the end of work that is not reported adds to no counter", "Work::end", kSockets,
     nullptr},
    {97, "threshold of the start before", "a start waits for what its descriptors were queued with last",
     "OfiNic::take", kSockets, nullptr},
    {98, "waits for what is far", "work that is due waits in the provider for what that cannot count to",
     "OfiNic::offer", kSocketsFar, nullptr},
    {99, "failure reaches nothing", "a failure that the driver counts does not bring its counter on",
     "OfiCounter::add_error", kSocketsFailures, nullptr},
    {100, "nothing is not counted at the target", "the word beside a region has no counter", "OfiRegion::open",
     kSocketsEmpty, nullptr},
    {101, "unpacked before the wait", "a wait unpacks what has not come", "Queue::wait", kGaps, nullptr},
    {102, "told before it is done", "a wait tells that it has unpacked, and unpacks", "Queue::wait", kGaps, nullptr},
    {103, "told one late", "the word that tells of packings is one behind them", "Queue::move", kGaps, nullptr},
    {104, "packed once", "a start packs the first time only", "Queue::start", kGaps, nullptr},
    {105, "packed for another", "a start packs all its buffers into the memory of the first", "Queue::start", kGaps,
     nullptr},
    {106, "unpacks all", "a wait unpacks as much as the buffer holds, not as the message has", "Queue::move",
     kGapsLengths, nullptr},
    {107, "freed before it is unpacked", "a request is freed though its stream will unpack into its buffer",
     "Endpoint::free_request", kGapsFree, nullptr},
    {108, "arrived is done", "a receive is started on another queue though its stream has not unpacked it",
     "Queue::check_start", kGapsElsewhere, nullptr},
    {109, "packed behind the ring", "a start rings before it packs", "Queue::start", kGaps, nullptr},
    {120, "flag believed", "MPIX_Queue_wait of a receiver does not wait for the senders' word that all went well",
     "Queue::settled", kCopiedFailures, nullptr},
    {121, "answered at once", "who is asked whether a send went well does not wait until the driver has told",
     "Matcher::answer", kDriverFlagFailures, nullptr},
    {122, "asked once", "a sender that was asked answers the first question alone", "Matcher::asked",
     kDriverFlagFailures, nullptr},
    {130, "exact before any", "a receive of any tag does not get an offer that a later one fits exactly",
     "PostedQueue::find", kWildcards, nullptr},
    {131, "tag not asked for", "a receive takes the oldest offer of its sender that waits, whatever its tag",
     "Matcher::begin", kTags, nullptr},
    {132, "one announced for several", "however many slots were written, one is announced",
     "ControlChannel::write_next", kMail, nullptr},
    {133, "announced though not written", "slots that are filled while a written one's sum waits are announced with it",
     "ControlChannel::write_next", kMailTight, nullptr},
    {150, "done after N(i-1)",
     "an exchange's done word grows once the messages of the last iteration have been counted",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {151, "merged CTS to the wrong counter", "clear-to-sends for an exchange's sends are counted among its messages",
     "ResourcePool::open_clear_to_send", kMerged, nullptr},
    {152, "one message less", "an exchange's done word grows though one message is missing",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {153, "done before its writes", "an exchange's done word grows at as many messages as it receives",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {154, "part of an exchange", "starts and waits of some of an exchange's requests are taken", "check_exchanges",
     kMergedPart, nullptr},
    {155, "merged writes of the last iteration", "an exchange's writes i wait for what i-1 waited for",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {156, "receive not counted", "what lands in one receive of an exchange is not counted",
     "ResourcePool::open_receive", kMerged, nullptr},
    {157, "ready members wait for CTS", "an exchange expects a clear-to-send for each ready send",
     "bind_exchange (exchange.cc)", kMergedReady, nullptr},
    {158, "merged CTS before the ring", "an exchange's clear-to-sends go out when all others' have come",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {159, "one merged CTS less", "an exchange's writes go out though one clear-to-send is missing",
     "bind_exchange (exchange.cc)", kMerged, nullptr},
    {160, "ring of one", "a start of an exchange adds 1 to its trigger", "Queue::ring_exchange", kMerged, nullptr},
    {161, "exchange waited for once", "waits for an exchange pass from its second start on", "Queue::wait", kMerged,
     nullptr},
    {162, "given up, and nobody told", "matching does not hear of a peer that the control channel alone has given up",
     "ControlPlane::look_for_lost_peers", kCut, nullptr},
    {163, "told at the last queue", "a failure is told on the queue of the last start, not on one that owes an answer",
     "FailureBook::take_failed", kRoamFlag, nullptr},
    {164, "longest of the sender", "the answer to an offer says what the sender's card takes, not what the receiver's",
     "Matcher::pair", kUneven, nullptr},
    {165, "still in the capture", "a request that is freed goes on as a captured start without a wait",
     "Endpoint::free_request", kCaptureAlone, nullptr},
    {166, "old place in the queue", "a receive that is posted again stands where it stood", "PostedQueue::add",
     kTooShort, nullptr},
    {167, "owes the next start", "the queue that a request leaves is to hear of the start on the next one",
     "Queue::start", kRoamFlag, nullptr},
    {168, "reserve kept", "a queue gives back what it keeps, and keeps it", "Queue::release_reserve", kReserves,
     nullptr},
    {169, "what is left of it", "an exchange that has lost a member is started", "check_exchanges (exchange.cc)",
     kMergedEnded, nullptr},
    {170, "one counter for both sets", "the messages of an exchange's two sets are counted by one counter",
     "Endpoint::open_sets, bind_exchange (exchange.cc)", kSets, nullptr},
    {171, "a set's done after N(k-1)", "a set's done word grows once the messages of its last start have been counted",
     "bind_exchange (exchange.cc)", kSets, nullptr},
    {172, "start out of turn", "a set is started whose turn it is not", "check_turn (exchange_sets.cc)", kSetsTurn,
     nullptr},
    {173, "one-way peer", "clear-to-sends are implied though nothing comes back", "clearance_of (exchange_sets.cc)",
     kSetsOneWay, nullptr},
    {174, "one side alone", "clear-to-sends are implied though the other side has single requests",
     "clearance_of (exchange_sets.cc)", kSetsOneSide, nullptr},
    {175, "completion counted elsewhere", "a set's own writes are counted when complete by the other set's counter",
     "plan_send (plan.cc)", kSets, nullptr},
    {176, "a set's done before its writes", "a set's done word grows at as many messages as it receives",
     "bind_exchange (exchange.cc)", kSets, nullptr},
    {177, "start before the wait", "a set is started though the other one's last start was not waited for",
     "check_turn (exchange_sets.cc)", kSetsTurn, nullptr},
    {178, "sets let go of one by one", "of an exchange that fails the other set is not let go of",
     "Endpoint::release_exchange", kSetsFailures, nullptr},
    {179, "written without proof", "a set's writes hang on the ring alone", "not_waited_for (exchange.cc)",
     kSetsFailures,
     "the stream rings after its wait for the other set, and what it is let past a wait of was stopped before that"},
    {180, "sent all the same", "implied clear-to-sends are sent", "apply (exchange_sets.cc)", kSets, nullptr},
    {181, "all slots are free", "how many slots the peer has not taken is forgotten", "ControlChannel::hand_on", kMail,
     nullptr},
    {182, "rings add up", "what cannot be taken back of a request that is let go of stays within its stream's reach",
     "Endpoint::stop", kMergedDriver, nullptr},
    {183, "rings add up from zero", "... is set back to where the stream began to ring", "trigger_base (plan.cc)",
     kMergedDriver, nullptr},
    {184, "merged flag after the first piece", "the flag of an exchange's send waits for one write of several",
     "raise_flag (plan.cc)", kMergedFlag, nullptr},
    {185, "merged flag not counted", "nothing counts the flags that an exchange's receives are told by",
     "ResourcePool::open_flag", kMergedFlag, nullptr},
    {186, "answered by the exchange", "a sender answers how a send went once the whole exchange is complete",
     "Matcher::answer", kMergedAsked, nullptr},
    {187, "message and flag counted", "an exchange counts the message and its flag where both land",
     "ResourcePool::open_receive", kMergedFlag, nullptr},
    {188, "confirmed with the exchange",
     "the increment of an exchange's done word is an operation of a send that is asked about",
     "choose_lead (exchange.cc)", kMergedAsked, nullptr},
    {189, "merged flag tied to the trigger", "the flag of an exchange's send is raised when the write is triggered",
     "raise_flag (plan.cc)", kMergedFlag, nullptr},
    {190, "threshold of the start before", "what a start posts waits for what the start before it waited for",
     "Queue::lower", kHalo, nullptr},
    {191, "shared ring prepared", "the ring that a ready send or a clear-to-send waits for is that of the first start",
     "Queue::lower", kHalo, nullptr},
    {192, "one operation prepared", "all operations of a plan are prepared as its first", "prepare_plan", kHalo,
     nullptr},
    {193, "prepared for ever", "what a request has prepared is not released when it is freed",
     "ResourcePool::try_close", kFree, nullptr},
    {194, "released twice", "what a prepared operation names is let go of twice", "NicModel::release", kFree, nullptr},
    {195, "shared trigger towards an exchange",
     "a receive whose sender merges rings by its queue's shared trigger, from which nothing can be taken back",
     "open_trigger (matcher.cc)", kMergedAlone, nullptr},
    {196, "captured: unpacked before the wait", "a captured wait unpacks what has not come", "Queue::record_wait",
     kCaptureGaps, nullptr},
    {197, "captured: nothing is packed", "a captured start packs none of its buffer's bytes", "Queue::record_moves",
     kCaptureGaps, nullptr},
    {198, "captured: not told", "the word that tells of packings stands still while a graph packs",
     "Queue::record_moves", kCaptureGaps, nullptr},
    {199, "captured: told from the beginning", "the word that tells of packings begins anew in a graph",
     "StandingOrders::begin", kCaptureGaps, nullptr},
    {200, "merged: one step for all", "all of an exchange's thresholds grow by the step of the first",
     "MergedPostings::fill", kMerged, nullptr},
    {201, "merged: failed and started", "a member has failed, and its exchange is started like any other",
     "FailureBook::add", kSetsFailures, nullptr},
    {202, "merged: the peer's end overlooked",
     "a member's peer has ended it, and its exchange is started like any other", "Endpoint::end_peer", kRandom,
     nullptr},
    {203, "merged: out of turn", "one of two sets is started whosever turn it is", "Queue::may_start (merged)",
     kSetsTurn, nullptr},
    {204, "merged: on another queue", "an exchange is started before its last start on another queue has completed",
     "Queue::may_start (merged)", kMergedRoam, nullptr},
    {205, "merged: with gaps, not packed", "an exchange of which a member has gaps is started as if it had none",
     "bind_exchange", kMergedGaps, nullptr},
    {206, "merged: overflow without threshold",
     "the first of an exchange's operations that find no room waits for nothing", "Queue::start_merged", kMergedTight,
     nullptr},
    {207, "told at the count", "a receive that flushes has its done word grow with the count, not with the flush",
     "tell_stream (plan.cc)", kFlush, nullptr},
    {208, "flushed before the last", "the fetch that flushes goes out when one piece is still missing",
     "flush (plan.cc)", kFlush, nullptr},
    {209, "flushed once before", "a receive's done word grows with the flush of the start before",
     "tell_stream (plan.cc)", kFlush, nullptr},
    {210, "merged: not flushed", "an exchange's done word grows with the count of its messages, which nothing flushes",
     "bind_exchange (exchange.cc)", kFlushMerged, nullptr},
    {211, "flushed by a sum", "what is to flush brings no answer: a plain sum", "flush (plan.cc)", kFlush, nullptr},
    {212, "flush left waiting", "what waits for a standing receive's flush is not taken back when it is freed",
     "StandingOrders::end", kFlushGraphs, nullptr},
    {213, "flushes' counter kept", "the counter of a receive's flushes is not closed", "ResourcePool::try_close",
     kFlushFree, nullptr},
    {214, "merged: unpacked before the wait", "an exchange's wait unpacks what has not come", "Queue::wait_merged",
     kCollectives, nullptr},
    {215, "merged: packed behind the ring", "an exchange's start rings before it has packed", "Queue::start_merged",
     kMergedGaps, nullptr},
    {230, "lane: matched before the sender is", "a receive with a lane is matched once it has connected itself",
     "Matcher::pair", kLanes, nullptr},
    {231, "lane: kept for the card", "a send that could not connect is offered anew, and keeps its end",
     "Matcher::accepted", kLanesWithdrawn, nullptr},
    {232, "lane: connected to nothing", "a send that could not connect counts as matched by lane", "Matcher::accepted",
     kLanes, nullptr},
    {233, "lane: withdrawn, and not told", "an answer with a lane to a send that was freed is dropped without a word",
     "Matcher::accepted", kLanesWithdrawn, nullptr},
    {235, "lane: given up unheard", "that a send does not connect is not told a receive that was withdrawn",
     "Matcher::fall_back", kLanesWithdrawn, nullptr},
    {236, "lane: an offer forgotten", "an offer with a lane that was withdrawn is not answered", "Matcher::withdrawn",
     kLanesWithdrawn, nullptr},
    {237, "lane: the receive's length", "the receiving side of a lane copies as much as there is room for",
     "Matcher::connect", kLanesLonger, nullptr},
    {238, "lane: let go of by itself", "an end is given to others as soon as its own side is gone",
     "Endpoint::close_lanes", kLanes, nullptr},
    {239, "lane: let go of unasked", "an end is given to others as soon as the other side is gone",
     "Endpoint::close_lanes", kLanesKills, nullptr},
    {240, "lane: unmapped at once", "memory of others is unmapped while streams may wait", "Endpoint::unmap_lanes",
     kLanesBeside, nullptr},
    {241, "lane: connects and waits", "to connect may unmap while streams may wait", "Endpoint::connect_lane",
     kLanesBeside, nullptr},
    {242, "lane: parted before its stream", "a side is said to be gone while its stream comes to it yet",
     "Endpoint::take_parted", kLanesKills, nullptr},
    {243, "lane: parted and forgotten", "that the other side is gone is forgotten where this one is not freed yet",
     "Endpoint::part_lane", kLanes, nullptr},
    {244, "lane: waited for without end", "what waits for a lane that was let go of waits on", "Endpoint::release",
     kLanesKills, nullptr},
    {245, "lane: freed with its exchange", "what a lane carries may be freed as soon as its exchange has failed",
     "Endpoint::release_set", kLanesMerged, nullptr},
    {246, "lane: an answer to clear-to-sends", "what comes back by a lane stands for clear-to-sends of the card's",
     "has_answer (exchange_sets.cc)", kLanesSets, nullptr},
};

}  // namespace

std::span<const Mutant> mutants() { return kMutants; }
std::span<const char* const> workloads() { return kWorkloads; }

Kill hunt(const Prey& prey) {
  constexpr uint64_t kFirstRound = 64;  // schedules of each workload; each round has four times as many as the last
  const auto begin = std::chrono::steady_clock::now();
  struct Ground {
    Ground(uint32_t workload, const Config& config) : workload(workload), config(config), exchange(config.exchange()) {}
    uint32_t workload;
    Config config;
    Exchange exchange;
    Fuzzer fuzzer{exchange, config.world, std::vector<SchedulerKind>()};
  };
  // Of random programs schedule i has a ground of its own with the others of its 32.
  const auto ground_for = [&](uint32_t workload, uint64_t i) {
    if (workload == kRandom)
      return std::make_unique<Ground>(workload, random_config(prey.seed + i / kSchedulesAProgram));
    const Result<Config> config = Config::parse(kWorkloads[workload]);
    LANYARD_CHECK(config.ok(), config.status().message().c_str());
    return std::make_unique<Ground>(workload, config.value());
  };
  chosen_mutant = prey.mutant;
  std::vector<std::unique_ptr<Ground>> grounds(prey.workloads.size());
  Kill kill;
  uint64_t done = 0, round = std::min(kFirstRound, prey.schedules);
  while (kill.report.ok() && done < prey.schedules) {
    for (size_t which = 0; which < prey.workloads.size() && kill.report.ok(); ++which) {
      std::unique_ptr<Ground>& ground = grounds[which];
      for (uint64_t i = done; i < done + round && kill.report.ok(); ++i) {
        if (prey.time.count() > 0 && std::chrono::steady_clock::now() - begin > prey.time) {
          chosen_mutant = 0;
          return kill;
        }
        const bool another = prey.workloads[which] == kRandom && i % kSchedulesAProgram == 0;
        if (ground == nullptr || another) {
          ground.reset();  // its arena is the next one's
          ground = ground_for(prey.workloads[which], i);
        }
        kill.seed = prey.seed + i;
        kill.report = ground->fuzzer.run(kill.seed);
        kill.workload = ground->workload;
        kill.scheduler = ground->fuzzer.scheduler_of(kill.seed);
        kill.steps = ground->fuzzer.world().steps();
        ++kill.schedules;
      }
      if (!kill.report.ok() && prey.shrinking.count() > 0)
        kill.shrunk = shrink(ground->config, ground->fuzzer.record(kill.seed), {.time = prey.shrinking});
    }
    done += round;
    round = std::min(4 * round, prey.schedules - done);
  }
  chosen_mutant = 0;
  return kill;
}

}  // namespace lanyard::nicsim
