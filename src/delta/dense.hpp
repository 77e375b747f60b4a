// The dense kind: a whole difference in 8 bits an element. Layout: delta/format.hpp.
#pragma once

#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "delta/difference.hpp"

namespace starling::delta {

/// Writes the whole difference to `out` (replaced): a keyframe.
/// Error (diverged): it is not finite or beyond kMagnitudeMax; `out` is left empty.
[[nodiscard]] base::Status encode_dense(const Difference& difference, base::Bytes& out);

/// Checks an untrusted dense payload for a replica of origin.size() elements, and writes out =
/// origin + float(level) * scale, in single float32 operations. Error (protocol): the payload is
/// wrong, or an element comes out beyond kMagnitudeMax; `out` is then in any state. `out` may be
/// `origin`.
[[nodiscard]] base::Status decode_dense(base::ByteView payload, std::span<const float> origin,
                                        std::span<float> out);

}  // namespace starling::delta
