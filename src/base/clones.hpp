// Loops that are worth compiling for wider vectors than the baseline processor has.
#pragma once

// In front of a function: the compiler makes copies for wider registers beside the baseline one,
// and the loader picks. Results do not depend on the choice, since contraction is off everywhere
// (AVX-512 brings fused multiply-adds) and only element-wise float operations may stand in such
// functions (no float reductions).
// STARLING_CLONES makes an AVX2 copy. STARLING_WIDE_CLONES adds one for AVX-512, where it was
// measured to gain: not where memory is waited for, nor where bits of a comparison are gathered. A
// copy for SSE4.2 gains nothing that counts (src/exchange/DECISIONS.md). Sanitizers instrument the
// loader's choice before they are ready: one copy there, and where a test asks for the one that its
// flags make (STARLING_PLAIN).
#if !defined(STARLING_PLAIN) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STARLING_CLONES __attribute__((target_clones("avx2", "default")))
#define STARLING_WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define STARLING_CLONES
#define STARLING_WIDE_CLONES
#endif
