// What a function requires of its caller's thread, in words that clang checks (-Wthread-safety): a "capability" is
// something that one thread holds at a time, a lock or the right to drive a NIC. Other compilers see nothing here.
#ifndef LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_
#define LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define LANYARD_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LANYARD_THREAD_ATTRIBUTE(attribute)
#endif

// Of a class: its objects are capabilities, called `name` in warnings; its objects hold one while they live.
#define LANYARD_CAPABILITY(name) LANYARD_THREAD_ATTRIBUTE(capability(name))
#define LANYARD_SCOPED_CAPABILITY LANYARD_THREAD_ATTRIBUTE(scoped_lockable)
// Of data: to be touched by who holds it only.
#define LANYARD_GUARDED_BY(capability) LANYARD_THREAD_ATTRIBUTE(guarded_by(capability))
// Of a function: its caller holds it; it takes it; it takes it where it returns `result`; it lets go of it.
#define LANYARD_REQUIRES(...) LANYARD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LANYARD_ACQUIRE(...) LANYARD_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LANYARD_TRY_ACQUIRE(...) LANYARD_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define LANYARD_RELEASE(...) LANYARD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
// Of a function: its caller does not hold it; it tells the compiler that it is held here, for reasons it cannot see.
#define LANYARD_EXCLUDES(...) LANYARD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define LANYARD_ASSERT_CAPABILITY(...) LANYARD_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))

#endif  // LANYARD_TRANSPORT_BASE_THREAD_ANNOTATIONS_H_
