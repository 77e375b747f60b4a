// Loops that are worth compiling for wider vectors than the baseline processor has.
#pragma once

// In front of a function: the compiler makes copies for wider registers beside the baseline one,
// and the loader picks one. Results do not depend on the choice, since contraction is off
// everywhere (AVX-512 brings fused multiply-adds) and such functions may contain only element-wise
// float operations (no float reductions).
// STARLING_CLONES makes an AVX2 copy. STARLING_WIDE_CLONES adds one for AVX-512, for loops where it
// was measured to gain: not those that wait for memory, nor those that gather bits of a comparison.
// A copy for SSE4.2 gains too little (src/exchange/DECISIONS.md). Sanitizers instrument the
// loader's choice before they are ready, so there is only one copy with them, and also if a test
// asks for the copy that its own flags make (STARLING_PLAIN).
#if !defined(STARLING_PLAIN) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STARLING_CLONES __attribute__((target_clones("avx2", "default")))
#define STARLING_WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STARLING_CLONES
#define STARLING_WIDE_CLONES
#endif
