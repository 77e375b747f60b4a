// libFuzzer: any bytes as links' frames for circuits, whose ends or relay this peer is, while they
// are opened, ended, and lose their links. Each circuit ends once, and the bytes that wait for a
// link are bounded.
#include "io/circuits.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/frame.hpp"

using namespace starling;
using namespace starling::io;

namespace {

constexpr std::uint32_t kLinks = 3;
constexpr std::size_t kNumbersMax = 3;
constexpr std::size_t kEndsMax = 8;
constexpr std::uint64_t kLimit = 100'000;

class Links final : public CircuitLinks {
 public:
  bool send_circuit_frame(base::LinkId link, base::Bytes frame) override {
    ASSERT(frame.size() <= wire::kFrameHeaderSize + kCircuitHeaderSize + kCircuitPieceMax);
    return up(link) && !full;
  }
  [[nodiscard]] std::optional<std::size_t> waiting_on(base::LinkId link) const override {
    if (!up(link)) return std::nullopt;
    return full ? std::size_t{1} << 20 : 0;
  }
  [[nodiscard]] bool up(base::LinkId link) const { return link.generation == generation; }

  bool full = false;
  std::uint32_t generation = 1;  ///< of the links that there are; earlier ones are gone
};

class World {
 public:
  explicit World(fuzz::Input input) : input_(input), circuits_(links_, kLimit) {}
  ~World() {
    for (const auto& end : ends_) end->abort();
  }
  void run() {
    while (!input_.empty()) {
      step();
      static_cast<void>(circuits_.pump(now_));
      count_ended();
    }
  }

 private:
  using Step = void (World::*)();

  void step() {
    constexpr std::array<Step, 10> kSteps{
        &World::open,    &World::relay, &World::arrive, &World::arrive,   &World::arrive,
        &World::use_end, &World::pass,  &World::end,    &World::link_end, &World::crowd_link};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  base::LinkId link() {
    return {static_cast<std::uint32_t>(1 + input_.at_most(kLinks - 1)), links_.generation};
  }
  std::uint32_t number() { return static_cast<std::uint32_t>(input_.at_most(kNumbersMax)); }

  void open() {
    if (ends_.size() == kEndsMax) return;
    const base::LinkId on = link();
    const std::uint32_t name = number();
    ++begun_;
    if (auto end = circuits_.open(on, name)) return ends_.push_back(std::move(end));
    circuits_.refuse(on, name);
  }
  void relay() {
    const base::LinkId a = link();
    const base::LinkId b = link();
    if (a == b) return;  // a circuit never joins a link with itself
    ++begun_;
    circuits_.relay(a, number(), b, number(), now_);
  }
  void end() { circuits_.end(link(), number()); }

  void arrive() {
    base::Bytes payload(kCircuitHeaderSize);
    base::store_little(payload, 0, number());
    base::store_little(payload, 4, static_cast<std::uint32_t>(input_.number(255)));
    base::store_little(payload, 8, std::uint32_t{input_.rarely() ? 1U : 0U});
    payload.resize(kCircuitHeaderSize + 64 * input_.take<std::uint8_t>());
    if (input_.rarely()) payload.resize(input_.take<std::uint16_t>());
    const bool sound = circuits_.on_frame(link(), payload, now_);
    const bool fits = payload.size() >= kCircuitHeaderSize &&
                      payload.size() <= kCircuitHeaderSize + kCircuitPieceMax;
    ASSERT(sound == fits);
  }

  // As the session over it does.
  void use_end() {
    if (ends_.empty()) return;
    const auto at = ends_.begin() + static_cast<std::ptrdiff_t>(input_.at_most(ends_.size() - 1));
    Carrier& end = **at;
    while (end.readable() && input_.flag()) ASSERT(!end.take().empty());
    if (const std::size_t room = end.writable(); room > 0) {
      end.send(base::Bytes(std::min<std::size_t>(room, 1 + input_.take<std::uint16_t>())));
    }
    end.send_credit();
    ASSERT(end.unconsumed() <= kCircuitWindow);
    ASSERT(end.failure() == Carrier::Failure::none || !end.failure_text().empty());
    const bool over = end.failure() != Carrier::Failure::none || end.ended() || input_.rarely();
    if (!over) return;
    end.abort();
    ASSERT(end.closed());
    ends_.erase(at);
  }

  void pass() { now_ += std::chrono::milliseconds(input_.take<std::uint16_t>()); }
  void link_end() {
    if (!input_.rarely()) return;
    const std::uint32_t before = links_.generation++;
    for (std::uint32_t i = 1; i <= kLinks; ++i) circuits_.link_gone({i, before});
    ASSERT(circuits_.relayed() == 0, "what is relayed ends with its link");
  }
  void crowd_link() { links_.full = input_.flag(); }

  void count_ended() {
    ended_ += circuits_.take_ended().size();
    ASSERT(ended_ + ends_.size() + circuits_.relayed() == begun_, "each circuit ends once");
  }

  fuzz::Input input_;
  base::Time now_{std::chrono::seconds(1)};
  Links links_;
  Circuits circuits_;
  std::vector<std::unique_ptr<Carrier>> ends_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World(fuzz::Input(data, size)).run();
  return 0;
}
