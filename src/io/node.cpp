#include "io/node.hpp"

#include <algorithm>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "wire/messages.hpp"

namespace starling::io {
namespace {

constexpr int kInterruptedExit = 130;
/// If no other peer is heard on the local network for this long, the log says why.
constexpr base::Duration kLanSilence = std::chrono::seconds(5);
/// A page that asked for the history within this time is open; the peer shows it the end for this
/// long.
constexpr base::Duration kWatched = std::chrono::seconds(8);
constexpr base::Duration kEndShown = std::chrono::seconds(4);

membership::LossReason reason_of(LinkEnd end) {
  switch (end) {
    case LinkEnd::protocol_error:
      return membership::LossReason::banned;
    case LinkEnd::closed:
      return membership::LossReason::closed;
    case LinkEnd::turned_away:  // before it was up
    case LinkEnd::no_route:
    case LinkEnd::reset:
      break;
  }
  return membership::LossReason::reset;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

/// The transport's reports to the node.
class Node::Handler final : public TransportHandler {
 public:
  explicit Handler(Node& node) : node_(node) {}

  void on_link_up(base::LinkId link, const LinkUp& up) override {
    const auto dialed = node_.take_dial(up.dial);
    if (!dialed && !up.observed.empty()) node_.addresses_->note_comer(up.observed);
    node_.feed(peer::LinkUp{.link = link,
                            .peer = up.peer,
                            .dialed = dialed.has_value() || up.opened,
                            .address = dialed.value_or(up.address),
                            .observed = up.observed,
                            .via = up.via});
  }

  void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration took) override {
    auto message = wire::decode(std::move(frame));
    if (!message) {
      return node_.feed(peer::Unreadable{link, std::move(message.error().text)});
    }
    if (*message) node_.feed(peer::Received{link, std::move(**message), took});
  }

  void on_part(base::LinkId link, std::uint8_t type, std::size_t bytes) override {
    node_.feed(peer::Arriving{link, type, bytes});
  }

  void on_link_down(base::LinkId link, LinkEnd end, const std::string& text) override {
    node_.feed(peer::LinkDown{link, reason_of(end), text});
  }

  void on_circuit_ended(const CircuitEnd& ended) override {
    node_.feed(peer::CircuitEnded{ended.link, ended.number, ended.bytes});
  }

  void on_dial_failed(std::uint64_t dial, LinkEnd end, const std::string& text) override {
    if (auto address = node_.take_dial(dial)) {
      node_.feed(peer::DialFailed{.address = std::move(*address),
                                  .text = text,
                                  .no_route = end == LinkEnd::no_route,
                                  .turned_away = end == LinkEnd::turned_away});
    }
  }

 private:
  Node& node_;
};

Node::Node(Options options, Loop loop)
    : options_(std::move(options)),
      loop_(std::move(loop)),
      handler_(std::make_unique<Handler>(*this)),
      wake_(std::make_unique<WakeUp>(loop_, [this] { take_outcomes(); })),
      timer_(std::make_unique<Timer>(loop_, [this] { on_timer(); })),
      trainer_(std::make_unique<TrainerPort>([this] { wake_->wake(); })) {
  if (!options_.signals) return;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (number == SIGHUP && is_ignored(number)) continue;  // by nohup
    signals_.push_back(
        std::make_unique<Signal>(loop_, number, [this, number] { on_signal(number); }));
  }
}

Node::~Node() {
  if (!transport_) return;
  // If it never ran.
  shut_down();
  loop_.run();
  close_handles();
}

base::Result<std::unique_ptr<Node>> Node::create(const Identity& identity, Options options) {
  auto loop = Loop::create();
  if (!loop) return base::fail(std::move(loop.error()));
  std::unique_ptr<Node> node(new Node(std::move(options), std::move(*loop)));
  auto transport =
      Transport::create(node->loop_, node->options_.transport, identity, *node->handler_);
  if (!transport) return base::fail(std::move(transport.error()));
  node->transport_ = std::move(*transport);
  node->watch_addresses();
  auto control = Control::create(
      node->loop_, node->options_.http,
      [raw = node.get()](const ControlRequest& request) { return raw->serve(request); });
  if (!control) return base::fail(std::move(control.error()));
  node->control_ = std::move(*control);
  if (node->options_.lan) node->open_lan(identity.id());
  return node;
}

// A peer that cannot look for others can still be found, and joined by address: it says so.
void Node::open_lan(const base::PeerId& own) {
  auto opened =
      Lan::create(loop_, {*options_.lan, own, transport_->bound().port}, transport_->bound().ip,
                  kLanPort, [this](const base::PeerId& peer, const std::string& address) {
                    feed(peer::Found{peer, address});
                  });
  if (!opened) return note(base::Severity::warning, opened.error().text);
  lan_ = std::move(*opened);
  lan_timer_ = std::make_unique<Timer>(loop_, [this] {
    // A peer that dialed this one has heard it, even if it was not heard itself.
    if (lan_->heard_any() || !status().links.empty()) return;
    note(base::Severity::warning, lan_->diagnosis());
  });
  lan_timer_->start(kLanSilence);
}

void Node::watch_addresses() {
  addresses_ = std::make_unique<OwnAddresses>(
      transport_->bound(), options_.announced,
      OwnAddresses::Observer{
          .changed = [this](const auto& addresses) { feed(peer::Moved{addresses}); },
          .note = [this](const std::string& text) { note(base::Severity::info, text); }});
}

NodeEnd Node::run(std::unique_ptr<peer::Core> core) {
  core_ = std::move(core);
  feed(peer::Start{});
  addresses_->start(loop_, options_.port_mapper);
  loop_.run();
  ASSERT(end_.has_value(), "the loop is stopped when the links are gone");
  end_->traffic = transport_->traffic();
  if (end_->reason == peer::EndReason::done) show_end();
  close_handles();
  return std::move(*end_);
}

// A page asks every two seconds: if the peer were gone at once, the page would never show its end.
void Node::show_end() {
  if (!history_asked_ || Loop::now() - *history_asked_ > kWatched) return;
  Timer over(loop_, [this] { loop_.stop(); });
  over.start(kEndShown);
  shows_end_ = true;
  loop_.run();
}

peer::Status Node::status() const { return core_->status(Loop::now()); }

void Node::feed(peer::Event event) {
  if (!core_ || end_) return;
  peer::Outbox out;
  core_->handle(std::move(event), Loop::now(), out);
  act(out);
  schedule();
}

std::optional<std::string> Node::take_dial(std::uint64_t token) {
  const auto found = std::ranges::find(dials_, token, &Dial::token);
  if (found == dials_.end()) return std::nullopt;
  std::string address = std::move(found->address);
  dials_.erase(found);
  return address;
}

void Node::on_timer() {
  peer::Outbox out;
  core_->expire(Loop::now(), out);
  act(out);
  schedule();
}

void Node::schedule() {
  if (end_) return;
  const auto deadline = core_->next_deadline();
  if (!deadline) return timer_->stop();
  timer_->start(*deadline - Loop::now());
}

void Node::note(base::Severity severity, const std::string& text) const {
  options_.observer.note(severity, text);
}

void Node::act(peer::Outbox& out) {
  const NodeObserver& observer = options_.observer;
  const base::Overloaded perform{
      [&](peer::Dial& dial) {
        const bool punches = dial.kind == peer::DialKind::punch && dial.peer;
        const std::uint64_t token =
            punches ? transport_->punch(dial.address, *dial.peer) : transport_->dial(dial.address);
        dials_.push_back({token, std::move(dial.address)});
      },
      [&](peer::OpenCircuit& open) {
        transport_->open_circuit(open.link, open.number, open.peer, open.dialer);
      },
      [&](peer::Relay& relay) {
        transport_->relay(relay.a, relay.number_a, relay.b, relay.number_b);
      },
      [&](peer::EndCircuit& end) { transport_->end_circuit(end.link, end.number); },
      [&](peer::Send& send) {
        base::Bytes frame = wire::encode(send.message);
        const auto type = static_cast<std::uint8_t>(wire::type_of(send.message));
        if (transport_->send(send.link, std::move(frame), wire::purpose_of(type))) return;
        // The other end does not read, so the link is useless; the transport reports its end.
        transport_->abort(send.link);
      },
      [&](peer::Accept& accept) { transport_->accept(accept.link); },
      [&](peer::Close& close) { transport_->close(close.link); },
      [&](peer::Run& run) { trainer_->submit(std::move(run.job)); },
      [&](base::LogEntry& said) { note(said.severity, said.text); },
      [&](peer::Report& report) { observer.report(status(), report); },
      [&](peer::Remember& action) { observer.remember(action.addresses); },
      [&](peer::Refused& refused) { observer.refused(refused); },
      [&](peer::Finished& finished) {
        end_ = NodeEnd{finished.reason, std::move(finished.error), status(), {}};
        // The trainer may be in the middle of a long step; its outcomes no longer matter.
        trainer_->close();
        shut_down();
      },
  };
  for (peer::Action& action : out) std::visit(perform, action);
}

void Node::take_outcomes() {
  for (peer::Event& event : std::exchange(asked_, {})) feed(std::move(event));
  if (core_ && trainer_->asked_to_leave()) feed(peer::Leave{});
  while (core_ && !end_) {
    auto outcome = trainer_->take();
    if (!outcome) return;
    feed(std::move(*outcome));
  }
}

void Node::on_signal(int number) {
  if (shows_end_) return loop_.stop();
  // A terminal that closes sends SIGHUP more than once, and timeout(1) does so with SIGTERM: only a
  // second Ctrl-C means that a person has lost patience.
  if (number == SIGINT && std::exchange(ctrl_c_, true)) _exit(kInterruptedExit);
  if (std::exchange(interrupted_, true) || end_) return;
  // A warning, since the person who pressed Ctrl-C waits for an answer.
  note(base::Severity::warning, "interrupted: saving and leaving; interrupt again to stop at once");
  feed(peer::Leave{});
}

ControlReply Node::serve(const ControlRequest& request) {
  if (!core_ || (end_ && request.post)) return error_reply(503, "the peer is starting or ending");
  if (request.path == "/history") history_asked_ = Loop::now();
  if (!request.post) return options_.serve(request, *this);
  // Answered first: leaving may close the control port.
  if (request.path == "/leave") {
    asked_.push_back(peer::Leave{});
  } else if (request.path == "/checkpoint") {
    asked_.push_back(peer::Checkpoint{});
  } else {
    return error_reply(404, "no such path");
  }
  wake_->wake();
  return {200, "{}\n"};
}

void Node::shut_down() {
  timer_->stop();
  addresses_->stop();
  lan_.reset();
  lan_timer_.reset();
  transport_->shutdown([this] { loop_.stop(); });
}

void Node::close_handles() {
  if (control_) control_->close();
  addresses_->release();
  signals_.clear();
  transport_.reset();
  timer_.reset();
  wake_.reset();
  loop_.run();  // until libuv has released all of them
}

}  // namespace starling::io
