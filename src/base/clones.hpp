// Loops that are worth compiling for wider vectors than the baseline processor has.
#pragma once

// In front of a function: the compiler makes an AVX2 copy beside the baseline one, and the loader
// picks. Results do not depend on the choice, since contraction is off everywhere and only
// element-wise float operations may stand in such functions (no float reductions).
// Sanitizers instrument the loader's choice before they are ready: one copy there, and where a test
// asks for the baseline one (STARLING_PLAIN).
#if !defined(STARLING_PLAIN) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STARLING_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define STARLING_CLONES
#endif
