// Perfetto: a Story as a trace that ui.perfetto.dev and chrome://tracing show.
//
// A process a rank, with the rows CPU, stream, NIC, link and memory; a slice of one microsecond a step, which begins at
// the step's number in microseconds; a flow an operation (trigger, fire, land, count, wake); counters for entries in
// use and for each request's done word; the finding as an instant.
//
// Format: "Trace Event Format", the Chromium project's document of the JSON that chrome://tracing reads.
#ifndef LANYARD_NICSIM_DETERMINISTIC_PERFETTO_H_
#define LANYARD_NICSIM_DETERMINISTIC_PERFETTO_H_

#include <string>

#include "nicsim/deterministic/story.h"

namespace lanyard::nicsim {

// A JSON document; it ends with a newline.
std::string perfetto_trace(const Story& story);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_PERFETTO_H_
