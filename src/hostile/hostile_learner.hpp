// The learner of a hostile peer: attacks on its own training, and on what it says of it.
#pragma once

#include <functional>
#include <memory>

#include "hostile/attack.hpp"
#include "peer/learner.hpp"

namespace starling::hostile {

/// Trains with `own`, and then changes what came of it while `is_active`. Its parameters stay
/// finite, and steps that diverge do not end it: a hostile peer goes on. In the processor's memory.
[[nodiscard]] std::unique_ptr<peer::Learner> make_hostile_learner(
    std::unique_ptr<peer::Learner> own, const Attack& attack, std::function<bool()> is_active);

}  // namespace starling::hostile
