// Annotations for clang's -Wthread-safety. A "capability" is held by one thread at a time: a lock,
// or the right to drive a NIC. Other compilers ignore them.
#ifndef LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_
#define LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define LANYARD_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LANYARD_THREAD_ATTRIBUTE(attribute)
#endif

// On a class: its objects are capabilities, called `name` in warnings; or each holds a capability
// during its lifetime.
#define LANYARD_CAPABILITY(name) LANYARD_THREAD_ATTRIBUTE(capability(name))
#define LANYARD_SCOPED_CAPABILITY LANYARD_THREAD_ATTRIBUTE(scoped_lockable)
// On data: only the holder of the capability may access it.
#define LANYARD_GUARDED_BY(capability) LANYARD_THREAD_ATTRIBUTE(guarded_by(capability))
// On a function: the caller must hold it; the function acquires it; acquires it if it returns
// `result`; releases it.
#define LANYARD_REQUIRES(...) LANYARD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LANYARD_ACQUIRE(...) LANYARD_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LANYARD_TRY_ACQUIRE(...) LANYARD_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define LANYARD_RELEASE(...) LANYARD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
// On a function: the caller must not hold it.
#define LANYARD_EXCLUDES(...) LANYARD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define LANYARD_ASSERT_CAPABILITY(...) LANYARD_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))

#endif  // LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_
