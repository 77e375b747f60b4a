// What lies between a stream's bytes and a link's frames: who is there, and secrecy.
#pragma once

#include <span>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"

namespace starling::io {

enum class Role { dialer, listener };

/// A byte-in, byte-out state machine without sockets. After an error it is of no further use,
/// except that output() may still hold the reason for the other end.
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
  /// Errors (protocol; secret: the ends have not the same) say why the other end is not to be
  /// talked to.
  [[nodiscard]] virtual base::Status receive(base::Buffer stream) = 0;
  /// Whether the handshake is over and the other end has agreed too: peer() and write() work.
  [[nodiscard]] virtual bool established() const noexcept = 0;
  /// Who is at the other end; needs established().
  [[nodiscard]] virtual const base::PeerId& peer() const noexcept = 0;
  /// Gets up to out.size() bytes of what was received; 0: no more until receive().
  [[nodiscard]] virtual base::Result<std::size_t> read(std::span<std::byte> out) = 0;
  /// Appends the stream's form of 1 to kRecordMax bytes to `stream`: at most kRecordOverhead more,
  /// apart from key updates. Needs established().
  [[nodiscard]] virtual base::Status write(base::ByteView plain, base::Buffer& stream) = 0;
  /// Appends what the session itself has to say to `stream`.
  virtual void output(base::Buffer& stream) = 0;
  /// Bytes that both ends of this very session know and nobody else; none of a session without
  /// secrecy. Needs established().
  [[nodiscard]] virtual base::Buffer shared_bytes() const = 0;
};

inline constexpr std::size_t kRecordMax = 16 * 1024;
inline constexpr std::size_t kRecordOverhead = 64;

}  // namespace starling::io
