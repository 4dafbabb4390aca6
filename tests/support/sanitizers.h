// Defines a macro for the sanitizer of this build: gcc and clang report it in different ways.
#ifndef LANYARD_TESTS_SANITIZERS_H_
#define LANYARD_TESTS_SANITIZERS_H_

#if defined(__SANITIZE_ADDRESS__)
#define LANYARD_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define LANYARD_THREAD_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LANYARD_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define LANYARD_THREAD_SANITIZER 1
#endif
#endif

#endif  // LANYARD_TESTS_SANITIZERS_H_
