// LANYARD_MUTANT: a known mistake, in the place where somebody could make it, so that it can be shown that the
// deterministic engine's oracles would find it (nicsim/deterministic/mutants.cc says what each one is).
//
// The sources know no mutants: patches beside this file put the switches into copies (README.md here), which include
// this. A thread has one of the mutants, or none. A program links either all libraries with mutants or none.
#ifndef LANYARD_TOOLS_MUTANTS_MUTANT_H_
#define LANYARD_TOOLS_MUTANTS_MUTANT_H_

#include <cstdint>

namespace lanyard {

// The mutant of the calling thread; 0: none.
inline thread_local uint32_t chosen_mutant = 0;

}  // namespace lanyard

#define LANYARD_MUTANT(number) (::lanyard::chosen_mutant == (number))

#endif  // LANYARD_TOOLS_MUTANTS_MUTANT_H_
