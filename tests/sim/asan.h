/* Is this compiled for AddressSanitizer?  gcc and clang tell it differently. */
#ifndef DPX_SIM_ASAN_H
#define DPX_SIM_ASAN_H

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif

#endif
