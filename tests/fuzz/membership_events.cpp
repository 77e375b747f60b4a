// libFuzzer: any bytes as events for a peer's membership: links, messages, dials without an
// outcome, time. For any events, it keeps to its limits, sends only on existing links, and says
// nothing that others refuse.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "membership/core.hpp"
#include "membership/simulated_signer.hpp"
#include "tests/fuzz/clock.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/message_source.hpp"

using namespace starling;
using namespace starling::membership;

namespace {

constexpr std::size_t kOthers = 12;
constexpr std::size_t kLinksMax = 24;
constexpr std::size_t kSizeMax = 4096;

Config config_of(fuzz::Input& input) {
  Config config{.degree = static_cast<std::uint32_t>(1 + input.at_most(4))};
  if (input.flag()) config.join = {fuzz::address_of(1), fuzz::address_of(2)};
  if (input.rarely()) config.hub = "peer-1";
  return config;
}

class World {
 public:
  explicit World(fuzz::Input input)
      : input_(input),
        source_(input_, {.others = kOthers}),
        signer_(fuzz::id_of(0)),
        core_(config_of(input_), fuzz::plain_record(0, input_.at_most(3) != 3), signer_,
              base::Rng(input_.take<std::uint8_t>())) {}

  void run() {
    expire();
    while (!input_.empty() && !left_ && !clock_.is_over()) {
      step();
      look();
    }
  }

 private:
  using Step = void (World::*)();

  void step() {
    constexpr std::array<Step, 14> kSteps{
        &World::link_up,     &World::link_up,       &World::receive, &World::receive,
        &World::receive,     &World::receive,       &World::answer,  &World::answer,
        &World::answer,      &World::pass_a_little, &World::pass,    &World::link_lost,
        &World::dial_failed, &World::something_else};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  void something_else() {
    constexpr std::array<Step, 9> kSteps{&World::found,   &World::heard, &World::speed,
                                         &World::moved,   &World::hold,  &World::progressed,
                                         &World::observe, &World::jump,  &World::leave};
    (this->*kSteps[input_.at_most(kSteps.size() - 1)])();
  }

  base::LinkId link() { return links_.empty() ? base::LinkId{99, 1} : any_link()->first; }
  std::map<base::LinkId, base::PeerId>::iterator any_link() {
    return std::next(links_.begin(),
                     static_cast<std::ptrdiff_t>(input_.at_most(links_.size() - 1)));
  }

  void link_up() {
    const auto said = fuzz::over_the_wire(source_.hello(number_of_caller()));
    if (!said || links_.size() == kLinksMax) return;
    const base::LinkId link{++last_link_, 1};
    LinkReady ready{.link = link, .other = std::get<wire::Hello>(*said).self};
    ready.dialed = input_.flag();
    ready.relayed = input_.at_most(3) == 3;
    // Where it asked to be dialed there may be no dial that it is the outcome of.
    if (ready.dialed && !dials_.empty()) ready.address = take_dial();
    links_[link] = ready.other.id;
    give(ready);
  }
  /// Rarely another process that has this peer's key.
  std::size_t number_of_caller() { return input_.rarely() ? 0 : source_.other(); }
  std::string take_dial() {
    const std::size_t at = input_.at_most(dials_.size() - 1);
    std::swap(dials_[at], dials_.back());
    std::string address = std::move(dials_.back());
    dials_.pop_back();
    return address;
  }

  void receive() {
    if (links_.empty()) return;
    const auto [link, peer] = *any_link();
    take(link, source_.of_membership(peer));
  }
  void take(base::LinkId link, const wire::Message& message) {
    auto taken = fuzz::over_the_wire(message);
    if (!taken) return;
    if (std::holds_alternative<wire::Bye>(*taken)) links_.erase(link);  // the peer closes it
    give(Received{link, std::move(*taken)});
  }
  void answer() {
    const auto said = std::exchange(said_, {});
    for (const Send& send : said) {
      const auto link = links_.find(send.link);
      if (link == links_.end()) continue;
      if (auto message = source_.answer(link->second, send.message)) take(send.link, *message);
    }
  }
  void link_lost() {
    const base::LinkId lost = link();
    links_.erase(lost);
    give(LinkLost{lost, input_.one_from(LossReason::reset, LossReason::relay), "gone"});
  }
  void dial_failed() {
    if (dials_.empty()) return;
    give(DialFailed{take_dial(), "no answer", input_.at_most(7) == 7, input_.at_most(7) == 7});
  }

  void found() { give(Found{fuzz::id_of(source_.other()), source_.address()}); }
  void heard() { give(Heard{link(), input_.flag()}); }
  void speed() { give(SpeedMeasured{static_cast<float>(input_.at_most(3))}); }
  void moved() {
    Moved moved{.addresses = {source_.address()}};
    moved.reach = input_.one_from(wire::Reachability::unknown, wire::Reachability::dials_only);
    give(moved);
  }
  void hold() { give(Hold{link(), input_.flag()}); }
  void progressed() {
    samples_ += input_.at_most(64);
    const wire::Progress own{.id_prefix = fuzz::id_of(0).prefix(), .samples = samples_};
    core_.set_own_progress(own, input_.flag(), clock_.now());
  }
  void observe() {
    core_.progress().observe(fuzz::id_of(source_.other()).prefix(), input_.number(255),
                             clock_.now());
  }
  void leave() {
    if (!input_.rarely()) return;
    left_ = true;
    give(Leave{input_.flag()});
    ASSERT(links_.empty() && !core_.next_deadline(), "who has left closes all and waits no more");
  }

  void jump() { clock_.jump(base::from_seconds(input_.take<std::uint8_t>())); }
  void pass_a_little() { pass(0.02 * input_.take<std::uint8_t>()); }
  void pass() { pass(1.0 * input_.take<std::uint8_t>()); }
  void pass(double seconds) {
    clock_.pass(core_, base::from_seconds(seconds), [this] { expire(); });
  }
  void expire() {
    Outbox out;
    core_.expire(clock_.now(), out);
    act(out);
  }
  void give(const Event& event) {
    Outbox out;
    core_.handle(event, clock_.now(), out);
    act(out);
  }

  void act(const Outbox& out) {
    for (const Action& action : out) {
      std::visit([this](const auto& value) { perform(value); }, action);
    }
    base::Bounds bounds;
    core_.add_bounds(bounds);
    core_.add_timers(clock_.now(), bounds);
    fuzz::require(bounds);
  }

  void perform(const Dial& dial) { dials_.push_back(dial.address); }
  void perform(const Send& send) {
    const auto link = links_.find(send.link);
    ASSERT(link != links_.end(), "it speaks on a link that there is");
    ASSERT(fuzz::over_the_wire(send.message).has_value(), "others take what it says");
    source_.note(link->second, send.message);
    said_.push_back(send);
    if (said_.size() > kLinksMax) said_.erase(said_.begin());
  }
  void perform(const Close& close) {
    ASSERT(links_.erase(close.link) == 1, "it closes a link once");
  }
  void perform(const NeighbourUp& up) {
    ASSERT(neighbours_.insert(up.peer).second, "a neighbour is lost before it comes back");
  }
  void perform(const NeighbourDown& down) {
    ASSERT(neighbours_.erase(down.peer) == 1, "a neighbour is lost once");
  }
  void perform(const MembersChanged&) {}
  void perform(const base::LogEntry& said) { ASSERT(!said.text.empty()); }

  /// Like the peer, and like requests for its status.
  void look() const {
    ASSERT(core_.neighbours(clock_.now()).size() >= neighbours_.size());
    ASSERT(core_.addresses_of_others().size() <= kRememberedMax);
    static_cast<void>(core_.progress().total(clock_.now()));
    static_cast<void>(core_.progress().rate(clock_.now()));
    static_cast<void>(core_.may_find_neighbours());
  }

  fuzz::Input input_;
  fuzz::MessageSource source_;
  fuzz::Clock clock_;
  std::map<base::LinkId, base::PeerId> links_;
  std::set<base::PeerId> neighbours_;
  std::vector<std::string> dials_;
  std::vector<Send> said_;  ///< that are not answered yet
  std::uint32_t last_link_ = 0;
  std::uint64_t samples_ = 0;
  bool left_ = false;
  SimulatedSigner signer_;
  Core core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= kSizeMax) World(fuzz::Input(data, size)).run();
  return 0;
}
