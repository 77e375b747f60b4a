// The layer between a stream's bytes and a link's frames: identity and secrecy.
#pragma once

#include <span>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"

namespace starling::io {

enum class Role { dialer, listener };

/// A byte-in, byte-out state machine without sockets. Not usable after an error, except that
/// output() may still hold the reason for the other end.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  virtual ~Session() = default;

  /// Of this end.
  [[nodiscard]] virtual Role role() const noexcept = 0;
  /// Takes bytes of the stream; read() must have returned 0 before. Drives the handshake. They are
  /// kept until they are read.
  /// Errors (protocol; secret: the ends do not have the same) say why the other end was refused.
  [[nodiscard]] virtual base::Status receive(base::Bytes stream) = 0;
  /// Whether the handshake is over and the other end has agreed too: peer() and write() work.
  [[nodiscard]] virtual bool established() const noexcept = 0;
  /// The peer at the other end; needs established().
  [[nodiscard]] virtual const base::PeerId& peer() const noexcept = 0;
  /// Gets up to out.size() received bytes; 0: no more until receive().
  [[nodiscard]] virtual base::Result<std::size_t> read(std::span<std::byte> out) = 0;
  /// Appends the stream's form of 1 to kRecordMax bytes to `stream`: at most kRecordOverhead more,
  /// apart from key updates. Needs established().
  [[nodiscard]] virtual base::Status write(base::ByteView plain, base::Bytes& stream) = 0;
  /// Appends the session's own output to `stream`.
  virtual void output(base::Bytes& stream) = 0;
  /// Bytes that only the two ends of this session know; empty for a session without secrecy. Needs
  /// established().
  [[nodiscard]] virtual base::Bytes shared_bytes() const = 0;
};

inline constexpr std::size_t kRecordMax = 16 * 1024;
inline constexpr std::size_t kRecordOverhead = 64;

}  // namespace starling::io
