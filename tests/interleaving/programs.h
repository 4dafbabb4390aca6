// The programs of threaded_interleaving_test.cc. Each sets up two NICs, lets its threads go, and looks at
// what must be true in the end, whatever the order (nic.h, wire.h).
#ifndef LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_
#define LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_

namespace lanyard::interleaving::programs {

// posting_programs.cc
void posting(), ringing(), full_ring(), releasing(), due_when_posted(), doorbell_words(), arming_while_attending(),
    canceling();
// sleeping_programs.cc
void listening(), waiting(), handing_over(), going_to_sleep();
// lane_programs.cc
void lanes_in_chunks(), lanes_waited_for_in_turn();
// message_programs.cc
void deregistering(), full_inboxes(), long_messages();

}  // namespace lanyard::interleaving::programs

#endif  // LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_
