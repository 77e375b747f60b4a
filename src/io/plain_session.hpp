// A session without secrecy, for measurements: the claimed identity of the other end is believed.
//
// Each end starts with a preface: "STARLING", a byte of version, the 32 bytes of its peer id. The
// listener answers when it has the dialer's preface; then frames follow as they are.
#pragma once

#include <memory>

#include "io/session.hpp"

namespace starling::io {

inline constexpr std::uint8_t kPlainVersion = 1;

/// Session with security off. The first output() of a dialer has its preface.
[[nodiscard]] std::unique_ptr<Session> make_plain_session(Role role, const base::PeerId& self);

}  // namespace starling::io
