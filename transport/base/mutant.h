// LANYARD_MUTANT: a known mistake, kept in the place where somebody could make it, so that it can be shown that the
// deterministic engine's oracles would find it (nicsim/deterministic/mutants.cc says what each one is).
//
// Normal builds know no mutants: the macro is the constant false and leaves no instruction behind. Builds that define
// LANYARD_MUTANTS have one of them, or none, in a thread. A program links either all libraries with mutants or none.
#ifndef LANYARD_TRANSPORT_BASE_MUTANT_H_
#define LANYARD_TRANSPORT_BASE_MUTANT_H_

#ifdef LANYARD_MUTANTS

#include <cstdint>

namespace lanyard {

// The mutant of the calling thread; 0: none.
inline thread_local uint32_t chosen_mutant = 0;

}  // namespace lanyard

#define LANYARD_MUTANT(number) (::lanyard::chosen_mutant == (number))
#else
#define LANYARD_MUTANT(number) false
#endif

#endif  // LANYARD_TRANSPORT_BASE_MUTANT_H_
