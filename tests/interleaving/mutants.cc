#include "tests/interleaving/mutants.h"

namespace lanyard::interleaving {

namespace {

constexpr Mutant kMutants[] = {
    {1, "does not look again for commands after it gave the right back", "ThreadedNic::progress", "ringing"},
    {2, "wakes those who wait before it counts what happened", "ThreadedNic::publish", "waiting"},
    {3, "wakes nobody", "ThreadedNic::publish", "waiting"},
    {4, "drives after it gave the right back", "ThreadedNic::progress", "posting"},
    {5, "publishes before it has taken in what arrived", "ThreadedNic::drive", "waiting"},
    {6, "the owner falls asleep without asking once it can be seen", "ThreadedNic::run_owner", "due_when_posted"},
    {7, "the owner does not say that it sleeps for long", "ThreadedNic::run_owner", "due_when_posted"},
    {8, "sleeps beside commands that wait", "ThreadedNic::wait_since", "going_to_sleep"},
    {9, "sleeps though something has happened since", "ThreadedNic::wait_since", "waiting"},
    {10, "does not do what arrived while it attended", "ThreadedNic::leave", "posting_while_attending"},
    {11, "leaves armed words to an owner that sleeps", "ThreadedNic::leave", "arming_while_attending"},
    {12, "the owner sleeps for long beside armed words", "ThreadedNic::run_owner", "doorbell_words"},
    {13, "the owner sleeps for long beside commands that wait", "ThreadedNic::run_owner", "due_when_posted"},
    {14, "says that it attends until after its last look", "ThreadedNic::leave", "due_when_posted"},
    {15, "wakes the owner before it says stop", "ThreadedNic::~ThreadedNic", "posting"},
    {16, "wakes the owner only while somebody attends", "ThreadedNic::wake_owner_if_asleep", "due_when_posted"},
    {17, "arming a word wakes nobody", "ThreadedNic::doorbell", "doorbell_words"},
    {18, "wakes the owner before the word counts as armed", "ThreadedNic::doorbell", "doorbell_words"},
    {19, "a ring is pushed, and nobody is to drive", "ThreadedNic::doorbell", "ringing"},
    {20, "leaves what a call made ready", "ThreadedNic::Driving", "coming_and_going"},
    {21, "commands that a call ran wake nobody", "ThreadedNic::Driving", "reading"},
    {22, "two threads may find the right free", "DriveRight::try_take", "posting"},
    {23, "what one driver did is not ordered before the next", "DriveRight::give_back", "posting"},
    {24, "does not help to empty a full ring", "push_command", "full_ring"},
    {25, "publishes a command before it is written", "MpscRing::push_filled", "posting"},
    {26, "two threads may take one cell", "MpscRing::push_filled", "full_ring"},
    {27, "what is in a command is not ordered before its publication", "MpscRing::push_filled", "posting"},
    {28, "a command is read without an order after its publication", "MpscRing::front", "posting"},
    {29, "a cell is free before its command has been read", "MpscRing::pop", "full_ring"},
    {30, "does not say how far the consumer is", "MpscRing::pop", "due_when_posted"},
    {31, "takes its seat after it has looked", "Bell::sleep", "waiting"},
    {32, "reads the word that it sleeps on after it has looked", "Bell::sleep", "waiting"},
    {33, "the last who leaves hands nothing over", "Bell::leave", "handing_over"},
    {34, "does not change the word that it wakes", "Bell::call", "waiting"},
    {35, "who has been roused once is taken to be on the way for ever", "Bell::move", "waiting"},
    {36, "wakes one of those who wait", "Bell::wake", "waiting"},
    {37, "sleeps beside a nudge", "Inbox::waiting", "full_inboxes"},
    {38, "keeps to itself that polling could go on", "ShmWire::set_more", "long_messages"},
    {39, "sleeps though polling could go on", "ShmWire::waiting", "long_messages"},
    {40, "looks for itself, and hands nothing over", "ThreadedNic::wait_since", "going_to_sleep"},
    {41, "does not look at what arrived while it slept", "ThreadedNic::wait_since", "coming_out_of_sleep"},
    {42, "takes a lock that is held", "FutexLock::wait", "locking"},
    {43, "who has waited does not say that others may sleep", "FutexLock::wait", "locking"},
    {44, "wakes nobody who waits for the lock", "FutexLock::unlock", "locking"},
    {45, "what a holder did is not ordered before the next", "FutexLock::unlock", "locking"},
    {46, "the next is not ordered after what a holder did", "FutexLock::lock", "locking"},
    {47, "who has waited is not ordered after what a holder did", "FutexLock::wait", "locking"},
    {48, "does not wait for a command that another is about to put there", "run_all_before", "releasing"},
};

}  // namespace

std::span<const Mutant> mutants() { return kMutants; }

}  // namespace lanyard::interleaving
