// Data that all parts of the simulated world share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "sim/agenda.hpp"
#include "sim/conducts.hpp"
#include "sim/learner.hpp"
#include "sim/node.hpp"

namespace starling::sim {

/// The record of a run: a line for people and a hash, over everything that happens.
class Trace {
 public:
  /// `write`: takes each line; may be empty. `agenda` outlives this.
  Trace(const Agenda& agenda, std::function<void(const std::string&)> write)
      : agenda_(agenda), write_(std::move(write)) {}

  /// Whether anybody reads the lines. They cost more than all the rest.
  [[nodiscard]] bool is_read() const noexcept { return static_cast<bool>(write_); }
  void line(const std::string& text) const {
    if (write_) write_(fmt::format("{:12.6f}  {}", agenda_.seconds(), text));
  }
  /// An event is delivered. `what`: the part of it that counts, besides its kind.
  void event(std::uint32_t node, std::uint32_t kind, std::uint64_t what) {
    const std::uint64_t words[] = {
        static_cast<std::uint64_t>(agenda_.now().time_since_epoch().count()),
        (std::uint64_t{node} << 32) | kind, what};
    frame(std::as_bytes(std::span(words)));
    ++events_;
  }
  void frame(base::ByteView bytes) { hash_ = base::xxh3(bytes, hash_); }
  /// XXH3 over every event that was delivered and the bytes of every frame, in order.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

 private:
  const Agenda& agenda_;
  std::function<void(const std::string&)> write_;
  std::uint64_t hash_ = 0;
  std::uint64_t events_ = 0;
};

[[nodiscard]] inline base::PeerId draw_id(base::Rng& rng) {
  base::PeerId id;
  for (std::uint8_t& byte : id.bytes) byte = static_cast<std::uint8_t>(rng.below(256));
  return id;
}

struct Shared {
  Shared(const Plan& of, Task& trained, std::function<void(const std::string&)> write,
         MakeConduct conducts)
      : plan(of),
        task(trained),
        make_conduct(std::move(conducts)),
        agenda(kStart + base::from_seconds(of.scenario.duration)),
        trace(agenda, std::move(write)),
        rng(of.seed) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// A rule of the world is broken: the run ends. Only the first one is kept.
  void breaks(std::string rule) {
    if (breach.empty()) breach = std::move(rule);
    agenda.stop();
  }
  /// The process of this life; nullptr: it has ended.
  [[nodiscard]] Node* find(const Life& life) const {
    Node& node = *nodes[life.node];
    return node.life == life.number && node.is_up() ? &node : nullptr;
  }

  const Plan& plan;
  Task& task;
  MakeConduct make_conduct;  ///< empty: all are honest
  Agenda agenda;
  Trace trace;
  base::Rng rng;  ///< of the network and of the processes
  Nodes nodes;
  Observer nobody;
  Observer* observer = &nobody;
  std::string breach;  ///< the first rule that was broken; empty: none was
};

}  // namespace starling::sim
