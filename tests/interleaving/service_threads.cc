// The copies' start_service_thread(): a thread of the schedule.
#include <utility>

#include "tests/interleaving/copies/transport/base/service_thread.h"

namespace lanyard {

Result<interleaving::Thread> start_service_thread(const char* name, std::function<void()> body) {
  return interleaving::Thread(name, std::move(body));
}

}  // namespace lanyard
