// The transport of a link's bytes: ordered bytes between two processes, with a bound on waiting
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"

namespace starling::io {

inline constexpr std::size_t kMessageMax = 64 * 1024;  ///< bytes that go at once, at most

/// An untrusted pipe: the session above checks its bytes. Not thread-safe, and without callbacks:
/// the owner polls its carriers in its turn.
class Carrier {
 public:
  /// Why a carrier ended by itself.
  enum class Failure : std::uint8_t { none, network, protocol, overflow };

  Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  /// Only when closed().
  virtual ~Carrier() = default;

  /// Bytes that send() takes now, at most kMessageMax; 0: wait for a turn.
  [[nodiscard]] virtual std::size_t writable() const noexcept = 0;
  /// Sends 1 to writable() bytes.
  virtual void send(base::Bytes data) = 0;
  /// Tells the other end that nothing follows. False: not possible yet, try in the next turn.
  [[nodiscard]] virtual bool send_end() = 0;
  [[nodiscard]] virtual bool end_sent() const noexcept = 0;
  /// Tells the other end how much was taken, if that is worth a message.
  virtual void send_credit() = 0;

  [[nodiscard]] virtual bool readable() const noexcept = 0;
  /// Some of the oldest bytes; needs readable().
  [[nodiscard]] virtual base::Bytes take() = 0;
  /// The other end sends nothing more, and everything that it sent was taken.
  [[nodiscard]] virtual bool ended() const noexcept = 0;

  [[nodiscard]] virtual Failure failure() const noexcept = 0;
  [[nodiscard]] virtual const std::string& failure_text() const noexcept = 0;

  /// Sent bytes that wait in this process, or are not known to be taken by the other end.
  [[nodiscard]] virtual std::size_t unconsumed() const noexcept = 0;
  /// The carrier's own bytes (headers, credits, ends) since the last call.
  [[nodiscard]] virtual std::uint64_t take_overhead_sent() noexcept = 0;
  [[nodiscard]] virtual std::uint64_t take_overhead_received() noexcept = 0;

  /// Closes it at once; bytes in flight are lost. Idempotent.
  virtual void abort() = 0;
  /// After abort(): nothing uses it any more, and it may be destroyed.
  [[nodiscard]] virtual bool closed() const noexcept = 0;
};

/// The kinds of carriers, the best one first.
enum class CarrierKind : std::uint8_t {
  ucx,      ///< between peers of one fabric
  tcp,      ///< a connection to the announced port
  circuit,  ///< through a member that relays
};

[[nodiscard]] constexpr const char* to_string(CarrierKind kind) noexcept {
  switch (kind) {
    case CarrierKind::ucx:
      return "ucx";
    case CarrierKind::tcp:
      return "tcp";
    case CarrierKind::circuit:
      return "circuit";
  }
  return "unknown";
}

}  // namespace starling::io
