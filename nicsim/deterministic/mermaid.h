// Mermaid: a Story as a sequence diagram, as Markdown viewers show it.
//
// Participants are a rank's CPU, stream and NIC. What is only a stage of something shown already is left out: reads,
// counts, and acks that went well. Each message begins with its step.
#ifndef LANYARD_NICSIM_DETERMINISTIC_MERMAID_H_
#define LANYARD_NICSIM_DETERMINISTIC_MERMAID_H_

#include <string>

#include "nicsim/deterministic/story.h"

namespace lanyard::nicsim {

// The diagram's text, without a Markdown fence; it ends with a newline. Of a long story only the end, with a note.
std::string mermaid_diagram(const Story& story);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_MERMAID_H_
