// ContextLock: holds the lock of the process's context (context.h). Annotated for clang's thread
// safety analysis.
#ifndef LANYARD_API_CONTEXT_LOCK_H_
#define LANYARD_API_CONTEXT_LOCK_H_

#include <mutex>

#include "transport/base/thread_annotations.h"

namespace lanyard::api {

class Context;

// Names the lock in annotations; declared, but never defined. A process has one context, and many
// functions that require its lock have no reference to it.
class LANYARD_CAPABILITY("the context's lock") ContextLocked;
extern ContextLocked context_locked;

class LANYARD_SCOPED_CAPABILITY ContextLock {
 public:
  explicit ContextLock(Context& context) LANYARD_ACQUIRE(context_locked);
  ~ContextLock() LANYARD_RELEASE() {}
  ContextLock(const ContextLock&) = delete;
  ContextLock& operator=(const ContextLock&) = delete;

 private:
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_CONTEXT_LOCK_H_
