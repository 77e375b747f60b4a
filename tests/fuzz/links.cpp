// libFuzzer: any bytes as actions of the other end of a link, below frames: cells on one carrier or
// several, which come, break and end. For any input, the link goes on or ends with a reason, keeps
// within its limits, and writes only whole cells itself.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "io/cells.hpp"
#include "io/link.hpp"
#include "io/plain_session.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/io/memory_carrier.hpp"
#include "wire/frame.hpp"

using namespace starling;
using namespace starling::io;
using test::MemoryCarrier;
using test::Pipe;

namespace {

constexpr std::size_t kMemory = std::size_t{1} << 20;
constexpr std::size_t kPayloadMax = std::size_t{1} << 16;
constexpr std::size_t kPipesMax = 3;
constexpr std::size_t kBytesMax = 255;
/// Of the other end's preface in a session without secrecy.
constexpr std::size_t kPrefaceSize = 8 + 1 + 32;

base::PeerId id_of(std::uint8_t fill) {
  base::PeerId id;
  id.bytes.fill(fill);
  return id;
}

class World {
 public:
  explicit World(fuzz::Input input)
      : input_(input),
        link_(0, "memory:1", bootstrap(CarrierKind::tcp), kMemory, base::Time::max()) {
    greet();
    link_.set_payload_max(kPayloadMax);
  }
  ~World() {
    link_.finish(LinkEnd::closed, "it is over");
    pump();
  }

  void run() {
    while (!input_.empty() && link_.state() != Link::State::over) {
      step();
      pump();
      ASSERT(link_.waiting() <= kMemory);
    }
    if (const auto& verdict = link_.verdict()) ASSERT(!verdict->text.empty());
  }

 private:
  using Step = void (World::*)();
  struct Carried {
    std::shared_ptr<Pipe> pipe;
    std::size_t unread = kPrefaceSize + kPreambleSize;  ///< bytes before the cells
    CellReader reader{};
  };

  void step() {
    constexpr std::array<Step, 12> kSteps{
        &World::say_data,   &World::say_data,  &World::say_data,    &World::say_number,
        &World::say_number, &World::say_other, &World::say_bytes,   &World::send,
        &World::send,       &World::pass,      &World::add_carrier, &World::break_carrier};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  /// Of the link's end, which listens; the input is the end that dials.
  std::unique_ptr<Bootstrap> bootstrap(CarrierKind kind) {
    carried_.push_back({std::make_shared<Pipe>()});
    return std::make_unique<Bootstrap>(kind,
                                       std::make_unique<MemoryCarrier>(carried_.back().pipe, 1),
                                       make_plain_session(Role::listener, id_of(1)), Preamble{});
  }
  // The opening of a session, which may be another peer's or cut short.
  void greet() {
    base::Bytes said;
    make_plain_session(Role::dialer, id_of(input_.rarely() ? 3 : 2))->output(said);
    base::append(said, encode(Preamble{}));
    if (input_.rarely()) said[input_.at_most(said.size() - 1)] ^= std::byte{1};
    say(carried_.back(), std::move(said));
    pump();
  }
  static void say(Carried& on, base::Bytes bytes) {
    if (!bytes.empty()) on.pipe->from[0].arrived.push_back(std::move(bytes));
  }
  Carried& some() { return carried_[input_.at_most(carried_.size() - 1)]; }

  void say_data() {
    const base::ByteView bytes = input_.take_bytes(input_.at_most(kBytesMax));
    const auto type = static_cast<wire::FrameType>(input_.at_most(23));
    const base::Bytes frame = wire::make_frame(type, {}, bytes);
    const base::ByteView all = input_.rarely() ? bytes : base::ByteView(frame);
    base::Bytes cell;
    append_cell_header(cell, CellType::data, all.size());
    base::append(cell, all);
    said_ += all.size();
    say(some(), std::move(cell));
  }
  // An offset in its own stream or in the link's, or near it.
  void say_number() {
    const auto type = input_.one_from(CellType::resume, CellType::end);
    const std::uint64_t near = input_.flag() ? said_ : heard_;
    const std::uint64_t number =
        input_.rarely() ? input_.take<std::uint64_t>() : near + input_.at_most(40) - 20;
    if (type == CellType::resume && number < said_) said_ = number;
    say(some(), number_cell(type, number));
  }
  void say_other() {
    const auto type = static_cast<CellType>(input_.at_most(9));
    const base::ByteView bytes = input_.take_bytes(input_.at_most(kBytesMax));
    base::Bytes cell;
    append_cell_header(cell, type, bytes.size());
    base::append(cell, bytes);
    say(some(), std::move(cell));
  }
  void say_bytes() {
    if (!input_.rarely()) return;
    const base::ByteView bytes = input_.take_bytes(input_.at_most(kBytesMax));
    say(some(), {bytes.begin(), bytes.end()});
  }

  void send() {
    const base::Bytes payload(input_.take<std::uint16_t>(), std::byte{7});
    static_cast<void>(
        link_.send(wire::make_frame(wire::FrameType::delta, {}, payload), wire::Purpose::delta));
  }
  void pass() {
    now_ += std::chrono::milliseconds(input_.take<std::uint16_t>());
    if (input_.rarely()) link_.close(now_ + std::chrono::seconds(1));
  }
  void add_carrier() {
    if (link_.state() != Link::State::up || carried_.size() == kPipesMax) return;
    const auto kind = input_.one_from(CarrierKind::ucx, CarrierKind::circuit);
    link_.add(bootstrap(kind), now_ + std::chrono::seconds(5));
    greet();
  }
  void break_carrier() {
    if (carried_.size() == 1 && !input_.rarely()) return;
    Carried& on = some();
    if (input_.flag()) {
      on.pipe->break_at(1);
    } else {
      on.pipe->from[0].ended = true;
    }
  }

  void pump() {
    const Link::Reports reports{
        .frame = [](wire::Frame&& frame,
                    base::Duration) { ASSERT(frame.bytes.size() <= kPayloadMax); },
        .part = [](std::uint8_t, std::size_t bytes) { ASSERT(bytes <= kPayloadMax); },
        .cell = [this](CellType, base::ByteView) -> base::Status {
          if (input_.rarely()) return base::fail(base::ErrorCode::protocol, "no such cell");
          return {};
        },
        .lost = [](CarrierKind, const std::string& why) { ASSERT(!why.empty()); }};
    for (int turns = 0; link_.pump(now_, reports); ++turns) {
      ASSERT(turns < 1000, "what has come is read at some time");
    }
    for (Carried& on : carried_) hear(on);
  }
  void hear(Carried& on) {
    for (const base::Bytes& message : std::exchange(on.pipe->from[1].flying, {})) {
      base::ByteView bytes(message);
      const std::size_t before = std::min(on.unread, bytes.size());
      on.unread -= before;
      bytes = bytes.subspan(before);
      if (link_.state() == Link::State::up) hear_cells(on, bytes);
    }
  }
  void hear_cells(Carried& on, base::ByteView bytes) {
    while (!bytes.empty()) {
      const auto part = on.reader.read(bytes);
      ASSERT(part.has_value(), "the other end takes what is written");
      if (*part && (*part)->type == CellType::data) heard_ += (*part)->bytes.size();
    }
  }

  fuzz::Input input_;
  base::Time now_{std::chrono::seconds(1)};
  std::vector<Carried> carried_;
  std::uint64_t said_ = 0;   ///< of the other end's stream
  std::uint64_t heard_ = 0;  ///< of the link's
  Link link_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World(fuzz::Input(data, size)).run();
  return 0;
}
