#include "io/link.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace starling::io {
namespace {

// If a record would carry less than this of a frame that has more, it waits for room.
constexpr std::size_t kRecordMin = 1024;
// For frames from this size on, the first kRecordMin bytes are a separate record, so that the
// receiver can tell from the rest how fast the line is. That costs less than a hundredth.
constexpr std::size_t kTimedFrameMin = 4096;
// The other end is told when this much has been taken since it was last told.
constexpr std::uint64_t kTellStep = kWindow / 8;

std::size_t index(wire::Purpose purpose) { return static_cast<std::size_t>(purpose); }

LinkEnd end_of(base::ErrorCode failure) {
  switch (failure) {
    case base::ErrorCode::secret:
      return LinkEnd::turned_away;
    case base::ErrorCode::unreachable:
      return LinkEnd::no_route;
    default:
      return LinkEnd::reset;
  }
}

}  // namespace

const char* to_string(LinkEnd end) noexcept {
  switch (end) {
    case LinkEnd::closed:
      return "closed";
    case LinkEnd::reset:
      return "reset";
    case LinkEnd::protocol_error:
      return "protocol error";
    case LinkEnd::turned_away:
      return "turned away";
    case LinkEnd::no_route:
      return "no route";
  }
  return "unknown";
}

Link::Link(std::uint64_t dial, std::string address, std::unique_ptr<Bootstrap> bootstrap,
           std::size_t memory, base::Time deadline)
    : dial_(dial),
      address_(std::move(address)),
      bootstrap_(std::move(bootstrap)),
      memory_(memory),
      deadline_(deadline) {}

Link::~Link() { ASSERT(gone(), "a carrier is still at work"); }

// --- commands ---

bool Link::send(base::Bytes frame, wire::Purpose purpose) {
  if (state_ != State::up) return false;
  if (out_.held() + frame.size() + Outgoing::kFrameOverhead > memory_) return false;
  out_.push(std::move(frame), purpose);
  return true;
}

void Link::close(base::Time deadline) {
  if (state_ == State::connecting) {
    verdict_ = Verdict{LinkEnd::closed, "closed by this peer"};
    bootstrap_->cancel(verdict_->text);
  } else if (state_ != State::up) {
    return;
  }
  begin_closing(deadline);
}

void Link::begin_closing(base::Time deadline) {
  state_ = State::closing;
  deadline_ = deadline;
  channels_.refuse_more();
}

void Link::finish(LinkEnd end, std::string text) {
  if (state_ == State::over) return;
  state_ = State::over;
  deadline_ = base::Time::max();
  if (!verdict_) verdict_ = Verdict{end, std::move(text)};
  out_.clear();
  count_received(wire::Purpose::other, 0);
  if (bootstrap_) channels_.retire(std::move(bootstrap_));
  channels_.end();
}

void Link::restart(std::unique_ptr<Bootstrap> bootstrap) {
  ASSERT(state_ == State::connecting);
  channels_.retire(std::exchange(bootstrap_, std::move(bootstrap)));
}

void Link::put(CellType type, base::ByteView cell) {
  if (state_ != State::up || cells_.size() >= kCellsMax) return;
  base::Bytes whole;
  append_cell_header(whole, type, cell.size());
  whole.insert(whole.end(), cell.begin(), cell.end());
  cells_.push_back(std::move(whole));
}

std::unique_ptr<Channel> Link::give_channel() {
  ASSERT(state_ == State::up && channels_.all().size() == 1);
  std::unique_ptr<Channel> channel = channels_.give();
  finish(LinkEnd::closed, "it is another link's carrier");
  return channel;
}

// --- work ---

/// Receives from the channels during a pump().
class Link::Sink final : public ChannelSink {
 public:
  Sink(Link& link, base::Time now, const Reports& reports)
      : link_(link), now_(now), reports_(reports) {}

  base::Status on_data(std::uint64_t offset, base::ByteView bytes) override {
    return link_.in_.add(offset, bytes,
                         [this](base::ByteView due) { return link_.deliver(due, now_, reports_); });
  }
  base::Status on_cell(CellType type, base::ByteView cell) override {
    return link_.on_cell(type, cell, reports_);
  }
  void on_raw(std::size_t bytes) override { link_.unattributed_ += bytes; }
  bool wants_more() const override { return link_.state_ != State::over; }

 private:
  Link& link_;
  base::Time now_;
  const Reports& reports_;
};

bool Link::pump(base::Time now, const Reports& reports) {
  channels_.release_closed();
  if (state_ == State::over) return false;
  if (now >= deadline_) {
    const bool closing = state_ == State::closing;
    finish(closing ? LinkEnd::closed : LinkEnd::reset,
           closing ? "closed by this peer before everything was sent" : bootstrap_->waiting_for());
    return true;
  }
  if (bootstrap_) return pump_bootstrap(now);
  channels_.set_up(now, peer_, traffic_, reports.lost);
  receive(now, reports);
  if (state_ != State::over) drop_broken(reports);
  if (state_ != State::over) check_end(now);
  if (state_ != State::over) transmit(now);
  if (state_ == State::closing) progress_close();
  return state_ == State::over || channels_.readable();
}

bool Link::pump_bootstrap(base::Time now) {
  const Bootstrap::State reached = bootstrap_->pump();
  bootstrap_->count(traffic_);
  switch (reached) {
    case Bootstrap::State::working:
      return false;
    case Bootstrap::State::done:
      opened_ = bootstrap_->other();
      route_ = bootstrap_->route();
      channels_.begin(bootstrap_->take_channel());
      peer_ = session().peer();
      bootstrap_.reset();
      state_ = State::up;
      deadline_ = base::Time::max();
      return true;
    case Bootstrap::State::failed:
      if (state_ == State::closing) return false;
      // A link that was never up has no end to report, but its dial has a reason.
      verdict_ = Verdict{end_of(bootstrap_->failure().code), bootstrap_->failure().text};
      begin_closing(std::min(deadline_, now + kCloseTimeout));
      return false;
    case Bootstrap::State::over:
      finish(end_of(bootstrap_->failure().code), bootstrap_->failure().text);
      break;
  }
  return true;
}

void Link::receive(base::Time now, const Reports& reports) {
  Sink sink(*this, now, reports);
  // A handler may end this link, or give it another channel.
  for (std::size_t i = 0; i < channels_.all().size() && state_ != State::over;) {
    Channel& channel = *channels_.all()[i];
    const Channel::Verdict verdict = channel.receive(sink);
    if (verdict == Channel::Verdict::breach) {
      return finish(LinkEnd::protocol_error, channel.text());
    }
    traffic_.received[index(wire::Purpose::other)] += channel.take_overhead_received();
    if (verdict == Channel::Verdict::fine) {
      ++i;
    } else {
      drop(i, channel.text(), reports);
    }
  }
}

void Link::drop_broken(const Reports& reports) {
  for (std::size_t i = 0; i < channels_.all().size() && state_ != State::over;) {
    Channel& channel = *channels_.all()[i];
    if (!channel.broken()) {
      ++i;
      continue;
    }
    if (state_ == State::closing) return finish(LinkEnd::closed, "closed by this peer");
    drop(i, channel.text(), reports);
  }
}

// When a channel breaks, the bytes in flight are sent again on another one, both ways.
void Link::drop(std::size_t number, const std::string& why, const Reports& reports) {
  if (channels_.all().size() == 1) return finish(LinkEnd::reset, why);
  const CarrierKind kind = channels_.all()[number]->kind();
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it may belong to the channel.
  const std::string text = why;
  channels_.drop(number);
  out_.rewind();
  wants_again_ = true;
  reports.lost(kind, text);
}

base::Status Link::on_cell(CellType type, base::ByteView cell, const Reports& reports) {
  if (type == CellType::offer || type == CellType::door) {
    return state_ == State::up ? reports.cell(type, cell) : base::Status{};
  }
  const auto number = number_in(cell);
  if (!number) return base::fail(number.error());
  if (type == CellType::end) {
    if (*number > in_.position() + kWindow) {
      return base::fail(base::ErrorCode::protocol, "the other end's stream ends too far ahead");
    }
    ends_at_ = *number;
    return {};
  }
  if (auto status = out_.taken(*number); !status) return status;
  if (type != CellType::again) return {};
  if (++asked_again_ > kAgainMax) {
    return base::fail(base::ErrorCode::protocol,
                      "the other end asks for the same bytes again and again");
  }
  out_.rewind();
  return {};
}

base::Status Link::deliver(base::ByteView bytes, base::Time now, const Reports& reports) {
  while (state_ == State::up) {
    const std::size_t before = bytes.size();
    auto frame = reader_.read(bytes);
    if (!frame) return base::fail(std::move(frame.error()));
    arrival_.add(before - bytes.size(), now);
    if (!*frame) break;
    count_received(wire::purpose_of((*frame)->type), bytes.size());
    reports.frame(std::move(**frame), std::exchange(arrival_, {}).took(now));
  }
  if (const auto type = reader_.unfinished(); type && state_ == State::up) {
    if (const std::size_t part = arrival_.take_part(now); part > 0) reports.part(*type, part);
  }
  return {};
}

// Counts the bytes received up to now for `purpose`, except `later` bytes after a frame's end.
void Link::count_received(wire::Purpose purpose, std::size_t later) {
  const std::uint64_t kept = std::min<std::uint64_t>(later, unattributed_);
  traffic_.received[index(purpose)] += unattributed_ - kept;
  unattributed_ = kept;
}

bool Link::ended_by_all() const noexcept { return ends_at_ && in_.position() >= *ends_at_; }

void Link::check_end(base::Time now) {
  if (!ended_by_all() || state_ == State::closing) return;
  verdict_ = Verdict{LinkEnd::closed, "closed by the other end"};
  begin_closing(now + kCloseTimeout);
  ended_by_other_ = true;
  out_.clear();
}

void Link::transmit(base::Time now) {
  record_size_.taken(out_.taken(), now);
  Channel& channel = channels_.best();
  if (auto status = put_cells(channel); !status) return finish(LinkEnd::reset, status.error().text);
  for (;;) {
    const std::uint64_t before = out_.position();
    if (auto status = fill(channel); !status) return finish(LinkEnd::reset, status.error().text);
    channel.flush(traffic_);
    if (out_.position() == before) break;
  }
  // Sessions and carriers of the other channels may have output of their own.
  for (const auto& other : channels_.all()) {
    if (other.get() != &channel) other->flush(traffic_);
  }
}

// The cells of a link beside its frames.
base::Status Link::put_cells(Channel& channel) {
  if (!channel.may_put()) return {};
  const std::uint64_t taken = in_.position();
  if (wants_again_ || taken - told_ >= kTellStep) {
    const auto type = std::exchange(wants_again_, false) ? CellType::again : CellType::taken;
    told_ = taken;
    if (auto status = channel.put(number_cell(type, taken), traffic_); !status) return status;
  }
  for (const base::Bytes& cell : std::exchange(cells_, {})) {
    if (auto status = channel.put(cell, traffic_); !status) return status;
  }
  return {};
}

// Puts queued bytes until the carrier has no room for more.
base::Status Link::fill(Channel& channel) {
  for (;;) {
    const Outgoing::Next next = out_.next();
    if (next.bytes.empty()) return {};
    const std::size_t room = channel.room(record_size_.max());
    if (room < std::min(next.bytes.size(), kRecordMin)) return {};
    const bool timed = next.first && next.frame_size >= kTimedFrameMin;
    const std::size_t size = std::min({next.bytes.size(), timed ? kRecordMin : kCellMax, room});
    if (auto status =
            channel.put_data(out_.position(), next.bytes.first(size), next.purpose, traffic_);
        !status) {
      return status;
    }
    out_.sent(size);
    if (timed) return {};
  }
}

void Link::progress_close() {
  if (out_.drained() && !end_sent_ && channels_.best().may_put()) {
    end_sent_ = true;
    const base::Bytes end = number_cell(CellType::end, out_.position());
    if (auto status = channels_.best().put(end, traffic_); !status) {
      return finish(LinkEnd::closed, status.error().text);
    }
    channels_.best().flush(traffic_);
  }
  // An end that was asked to close lets the other end hang up: otherwise its own answer might be
  // lost.
  if (end_sent_ && ended_by_all() && !ended_by_other_) {
    finish(LinkEnd::closed, "closed by this peer");
  }
}

}  // namespace starling::io
