// The peer: membership, exchange and training as one deterministic core. It has no clock, socket,
// thread or file; events go in, actions come out, and one seed decides the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "data/sharding.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/known_addresses.hpp"
#include "peer/share.hpp"
#include "peer/speed_meter.hpp"
#include "peer/status.hpp"
#include "peer/step_pace.hpp"
#include "reach/core.hpp"

namespace starling::peer {

/// How long a new link may be silent before its Hello.
inline constexpr base::Duration kHelloTimeout = std::chrono::seconds(5);
/// A peer that is done stays at most so long for circuits that it relays.
inline constexpr base::Duration kStayMax = std::chrono::seconds(30);
/// A relay whose links have all gone stays at its run for so long.
inline constexpr base::Duration kRelayAlone = std::chrono::minutes(1);
/// Between the two ends of a link of this peer with itself.
inline constexpr base::Duration kBothEndsTold = std::chrono::seconds(2);
/// Links, those without a Hello and those on their way out included; further ones are closed.
inline constexpr std::size_t kConnectionsMax = 256;
/// Between two rows of the metrics, beside those with an evaluation.
inline constexpr base::Duration kReportEvery = std::chrono::seconds(2);
class Core {
 public:
  /// `self`: this peer's record, with the addresses that others can dial; `signer` signs it. One
  /// without a replica makes a relay: it exchanges and trains nothing, and where `config.run` is
  /// zero it serves the run of the first peer that says hello. `shards` and `signer` outlive this.
  Core(Config config, wire::MemberRecord self, const data::Shards& shards, const Resume& resume,
       membership::Signer& signer, base::Rng rng);

  /// Time never decreases. Appends what is to be done, in order.
  void handle(Event event, base::Time now, Outbox& out);
  [[nodiscard]] std::optional<base::Time> next_deadline() const;
  void expire(base::Time now, Outbox& out);

  [[nodiscard]] Status status(base::Time now) const;
  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  /// The parts, to be looked at.
  [[nodiscard]] const membership::Core& membership() const noexcept { return membership_; }
  [[nodiscard]] const exchange::Core& exchange() const noexcept { return agreement_.exchange(); }
  [[nodiscard]] const reach::Core& reach() const noexcept { return reach_; }
  /// What can grow, and what waits, in this core and its parts: nothing is above its limit between
  /// two calls. Cheap, and a look at all that waits.
  void add_bounds(base::Bounds& out) const;
  void add_timers(base::Time now, base::Bounds& out) const;

 private:
  struct LinkInfo {
    base::PeerId peer;
    bool dialed = false;
    std::string address;
    std::string observed;       ///< the other end's address as seen here; empty: as LinkUp has it
    base::LinkId via;           ///< over a circuit: the link with the relay
    bool wanted = false;        ///< it is the outcome of a dial that membership asked for
    std::uint64_t answers = 0;  ///< the other end asked to be dialed, by this introduction
    bool ready = false;         ///< Hello accepted
    bool closing = false;
    bool told_run_file = false;  ///< a relay, of its run
    base::Time hello_until;      ///< not ready: time at which it is closed
  };

  // Each takes one event (core.cpp, core_links.cpp, core_training.cpp).
  void on(Start&, base::Time now, Outbox& out);
  void on(LinkUp& event, base::Time now, Outbox& out);
  void on(LinkDown& event, base::Time now, Outbox& out);
  void on(DialFailed& event, base::Time now, Outbox& out);
  void on(Found& event, base::Time now, Outbox& out);
  void on(Moved& event, base::Time now, Outbox& out);
  void on(Received& event, base::Time now, Outbox& out);
  void on(const Arriving& event, base::Time now, Outbox& out);
  void on(Outcome& event, base::Time now, Outbox& out);
  void on(Leave&, base::Time now, Outbox& out);
  void on(Checkpoint&, base::Time now, Outbox& out);
  void on(Unreadable& event, base::Time now, Outbox& out);
  void on(const CircuitEnded& event, base::Time now, Outbox& out);

  // Each takes the outcome of a job (core_training.cpp, core.cpp).
  void on_outcome(const StepDone& done, base::Time now, Outbox& out);
  void on_outcome(GradientReady& ready, base::Time now, Outbox& out);
  void on_outcome(OuterGradient& ready, base::Time now, Outbox& out);
  void on_outcome(const OuterStepDone&, base::Time now, Outbox& out);
  void on_outcome(const Evaluated& evaluated, base::Time now, Outbox& out);
  void on_outcome(const NotEvaluated&, base::Time now, Outbox& out);
  void on_outcome(const Saved& saved, base::Time now, Outbox& out);
  void on_outcome(Failed& failed, base::Time now, Outbox& out);
  void on_outcome(base::Notice& said, base::Time now, Outbox& out);
  void on_outcome(exchange::Outcome& outcome, base::Time now, Outbox& out);

  // Each does what a part asks for (core.cpp).
  void perform(membership::Dial& dial, base::Time now, Outbox& out);
  void perform(membership::Send& send, base::Time now, Outbox& out);
  void perform(const membership::Close& close, base::Time now, Outbox& out);
  void perform(const membership::NeighbourUp& up, base::Time now, Outbox& out);
  void perform(const membership::NeighbourDown& down, base::Time now, Outbox& out);
  void perform(const membership::MembersChanged&, base::Time now, Outbox& out);
  void perform(base::Notice& said, base::Time now, Outbox& out);
  void perform(reach::Send& send, base::Time now, Outbox& out);
  void perform(const reach::Hold& hold, base::Time now, Outbox& out);
  void perform(const reach::Tell& tell, base::Time now, Outbox& out);
  void perform(reach::Failed& failed, base::Time now, Outbox& out);
  void perform(reach::Dial& dial, base::Time now, Outbox& out);
  void perform(const reach::OpenCircuit& open, base::Time now, Outbox& out);
  void perform(const reach::Relay& relay, base::Time now, Outbox& out);
  void perform(const reach::EndCircuit& end, base::Time now, Outbox& out);
  void perform(Agreement::Send& send, base::Time now, Outbox& out);
  void perform(Run& run, base::Time now, Outbox& out);
  void perform(const Agreement::Misbehaved& who, base::Time now, Outbox& out);
  void perform(const Agreement::NoRoom& who, base::Time now, Outbox& out);
  void perform(const Agreement::Settled& settled, base::Time now, Outbox& out);
  void perform(const Agreement::SaveTogether&, base::Time now, Outbox& out);
  void perform(const Agreement::Served&, base::Time now, Outbox& out);
  void perform(Agreement::Broken& broken, base::Time now, Outbox& out);
  void perform(Agreement::Failed& failed, base::Time now, Outbox& out);

  // Links and messages that are not for one part alone (core_links.cpp).
  void on_hello(base::LinkId link, LinkInfo& info, wire::Hello& hello, base::Time now, Outbox& out);
  void on_refuse(base::LinkId link, const LinkInfo& info, const wire::Refuse& refusal,
                 base::Time now, Outbox& out);
  void say_hello(base::LinkId link, const LinkInfo& info, Outbox& out) const;
  void on_run_file_request(base::LinkId link, LinkInfo& info, Outbox& out);
  void refuse(base::LinkId link, wire::Refuse refusal, Outbox& out);
  void no_room_for(base::LinkId link, const base::PeerId& peer, const std::string& text,
                   base::Time now, Outbox& out);
  void end_link(const membership::LinkLost& lost, wire::Bye bye, base::Time now, Outbox& out);
  void misbehaved(base::LinkId link, const base::PeerId& peer, const std::string& text,
                  base::Time now, Outbox& out);
  void close_silent_links(base::Time now, Outbox& out);
  void make_ready(base::LinkId link, LinkInfo& info, wire::Hello& hello, base::Time now,
                  Outbox& out);

  // Carrying events to the parts and their actions on (core.cpp).
  void expire_parts(base::Time now, Outbox& out);
  void to_membership(const membership::Event& event, base::Time now, Outbox& out);
  void to_reach(const reach::Event& event, base::Time now, Outbox& out);
  void to_agreement(Agreement::Event event, base::Time now, Outbox& out);
  void take_membership(membership::Outbox& actions, base::Time now, Outbox& out);
  void take_reach(reach::Outbox& actions, base::Time now, Outbox& out);
  void take_agreement(Agreement::Outbox& actions, base::Time now, Outbox& out);
  void tell_progress(base::Time now, Outbox& out);
  void end(Finished finished, base::Time now, Outbox& out);
  /// None where it is no neighbour.
  [[nodiscard]] base::LinkId link_of(const base::PeerId& peer) const;
  void send_to(const base::PeerId& peer, wire::Message message, Outbox& out);
  void remember_changes(base::Time now, Outbox& out);
  void remember_others(Outbox& out);

  // Training (core_training.cpp).
  void start_if_ready(base::Time now, Outbox& out);
  void end_wait(base::Time now, Outbox& out);
  void end_if_alone(base::Time now, Outbox& out);
  void update_progress(base::Time now);
  void next_steps(base::Time now, Outbox& out);
  void hand_out_steps(base::Time now, Outbox& out);
  void assign_shards(Outbox& out);
  [[nodiscard]] bool may_step() const noexcept;
  [[nodiscard]] bool waits_for_step() const noexcept;
  void evaluate_if_due(Outbox& out);
  void end_evaluation(const std::optional<Evaluated>& evaluated, base::Time now, Outbox& out);
  void begin_settling(base::Time now, Outbox& out);
  void settle(base::Time now, Outbox& out);
  void tell_company(base::Time now, Outbox& out);
  void begin_finishing(base::Time now, Outbox& out);
  void end_if_over(base::Time now, Outbox& out);
  void end_if_finished(base::Time now, Outbox& out);
  /// The end without another peer, which is gone.
  void end_broken(base::Error error, base::Time now, Outbox& out);
  /// Whether this peer, which is done, is still needed as a relay.
  [[nodiscard]] bool stays_as_relay(base::Time now, Outbox& out);
  void save(Outbox& out);
  void save_if_idle(Outbox& out);
  void publish(base::Time now);
  void measure_speed(base::Time now, Outbox& out);

  // A relay (core_relay.cpp).
  [[nodiscard]] bool is_relay() const noexcept { return !self_.has_replica; }
  void find_run(const wire::Hello& hello, Outbox& out);
  /// Whether it was asked by a relay, for the first time on this link.
  [[nodiscard]] bool tell_run_file(base::LinkId link, LinkInfo& info, Outbox& out) const;
  void note_links_of_relay(base::Time now);

  // Bounds (core_bounds.cpp).
  template <class Visit>
  void visit_deadlines(const Visit& visit) const;

  // The run and the parts.
  KnownAddresses known_;
  Config config_;
  wire::MemberRecord self_;
  const data::Shards& shards_;
  membership::Core membership_;
  Agreement agreement_;
  reach::Core reach_;
  std::vector<std::string> addresses_;  ///< this machine's own, without the outer one

  // Links.
  std::map<base::LinkId, LinkInfo> links_;
  std::map<base::PeerId, base::LinkId> neighbours_;
  bool had_neighbour_ = false;
  bool knows_run_;  ///< config_.run and what a Hello says of it are so; only a relay may not know
  bool reported_duplicate_key_ = false;
  std::optional<base::Time> dialed_itself_;  ///< the last time that an own dial led to this peer

  // What to train on, and how fast.
  Share share_;                  ///< of the next steps
  bool members_changed_ = true;  ///< whether share_ is to be decided anew
  SpeedMeter speed_;
  StepPace pace_;

  // Where the run stands.
  Phase phase_ = Phase::waiting;
  bool started_ = false;
  bool leaving_ = false;
  base::StepNumber step_;
  std::uint64_t samples_ = 0;
  std::uint64_t swarm_samples_ = 0;
  double progress_ = 0;                ///< of the swarm, 0 to 1; never falls
  std::uint64_t evaluations_due_ = 0;  ///< number of evaluations that were due

  // Jobs that have no outcome yet.
  std::uint32_t steps_outstanding_ = 0;
  std::uint32_t evaluations_outstanding_ = 0;
  std::uint32_t saves_outstanding_ = 0;

  // What came of them.
  float learning_rate_ = 0;
  std::optional<double> train_loss_;
  std::optional<Evaluated> evaluated_;
  base::Error unsaved_;  ///< why the last checkpoint was not written; empty: it was
  std::optional<base::Time> training_since_;
  std::optional<base::Time> first_step_;
  std::optional<base::Time> last_step_;

  // Deadlines, each in visit_deadlines().
  std::optional<base::Time> wait_until_;    ///< end of the wait for links; none: it is over
  std::optional<base::Time> alone_until_;   ///< require_peers: end of the wait for a first peer
  std::optional<base::Time> stay_until_;    ///< it is done, and stays as a relay
  std::optional<base::Time> relays_until_;  ///< a relay without a link
  std::optional<base::Time> checkpoint_at_;
  std::optional<base::Time> report_at_;
};

}  // namespace starling::peer
