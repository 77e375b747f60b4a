// Addresses as people write them, "host:port", and as sockets need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "io/loop.hpp"

namespace starling::io {

struct HostPort {
  std::string host;  ///< a name, or a number; IPv6 without brackets
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// "host:port", with brackets around IPv6.
[[nodiscard]] std::string to_string(const HostPort& target);

/// Splits "host:port", "a.b.c.d:port" and "[2001:db8::1]:port". ":port" is for listening: all
/// addresses of this machine ("::"). Errors (network) say what is wrong.
[[nodiscard]] base::Result<HostPort> parse_address(std::string_view address);

/// The same for an address to dial, which must name a host and a port above 0.
[[nodiscard]] base::Result<HostPort> parse_target(std::string_view address);

/// The address if the host is written in numbers; nothing else needs a lookup.
[[nodiscard]] std::optional<base::IpPort> numeric_address(const HostPort& target);

/// Whether a client is on this machine, by its address and the one that it reached: it comes from a
/// loopback address, or from the address that it reached.
[[nodiscard]] bool is_own_client(const base::Ip& client, const base::Ip& reached);

/// Finds a host's address, IPv4 if it has one, and waits for the answer: for start-up only.
[[nodiscard]] base::Result<base::IpPort> resolve_now(const HostPort& target);

/// Addresses of a name that are used; further ones are not.
inline constexpr std::size_t kAddressesPerName = 16;

class Lookup;

/// Asks for the addresses of host names, each once at a time, on its own threads. The system's
/// lookup can be neither bounded in time nor cancelled, so neither this class nor the end of the
/// program waits for these threads. (libuv would wait for its own.)
class Resolver {
 public:
  /// Threads at a time. Further names wait until one of these has its answer.
  static constexpr std::size_t kAskingMax = 4;

  /// `loop` must outlive it.
  explicit Resolver(Loop& loop);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  /// All its lookups must be gone.
  ~Resolver();

  [[nodiscard]] Loop& loop() noexcept { return loop_; }
  /// Number of names being looked up.
  [[nodiscard]] std::size_t asking() const noexcept { return asking_; }

 private:
  friend class Lookup;
  struct Question {
    std::string host;
    std::vector<Lookup*> waiting{};  ///< in the order they came
    bool asked = false;              ///< by a thread
  };
  struct Answer;
  /// Everything that threads share with this. The last holder frees it: a thread may outlive this.
  struct Answers;

  Question& question_for(const std::string& host);
  void forget(Lookup& lookup);
  void ask_next();
  void take_answers();

  Loop& loop_;
  WakeUp wake_;
  std::list<Question> questions_;  ///< in the order they came
  std::size_t asking_ = 0;
  std::shared_ptr<Answers> answers_;
};

/// Finds the addresses of a host name, of both families, without blocking the loop. Destroying it
/// forgets the question.
class Lookup {
 public:
  /// At least one, without repeats, at most kAddressesPerName; in the order in which the system
  /// would try them (RFC 6724).
  using Found = std::vector<base::IpPort>;
  using Done = std::function<void(base::Result<Found>)>;

  /// `done` is called once, from the loop, never from here; it may destroy this. `resolver` must
  /// outlive it.
  Lookup(Resolver& resolver, const HostPort& target, Done done);
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  ~Lookup();

 private:
  friend class Resolver;

  Resolver& resolver_;
  std::uint16_t port_;
  Done done_;
  Resolver::Question* question_;  ///< null once it is answered
};

}  // namespace starling::io
