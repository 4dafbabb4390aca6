// The programs of the workloads (workloads.h). Each sets two NICs up, or a lock, lets its threads go, and looks at what
// must be true in the end.
#ifndef LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_
#define LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_

namespace lanyard::interleaving::programs {

// posting_programs.cc
void posting();
void ringing();
void reading();
void full_ring();
void releasing();
void due_when_posted();
void doorbell_words();
void arming_while_attending();
void coming_and_going();
void canceling();
void posting_while_attending();

// sleeping_programs.cc
void listening();
void attending();
void waiting();
void handing_over();
void going_to_sleep();
void coming_out_of_sleep();

// locking_programs.cc
void locking();

// lane_programs.cc
void lanes();
void lanes_in_chunks();
void lanes_by_slots();
void lanes_waited_for_in_turn();
void lanes_by_blocks();
void lanes_raised();

// message_programs.cc
void deregistering();
void full_inboxes();
void long_messages();

}  // namespace lanyard::interleaving::programs

#endif  // LANYARD_TESTS_INTERLEAVING_PROGRAMS_H_
