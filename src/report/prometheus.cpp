#include "report/prometheus.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/printable.hpp"
#include "exchange/clip.hpp"

namespace starling::report {
namespace {

constexpr std::string_view kPrefix = "starling_";
constexpr wire::MemberState kMemberStates[] = {wire::MemberState::alive, wire::MemberState::suspect,
                                               wire::MemberState::dead, wire::MemberState::left};

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Families one after the other, the samples of each below its head.
class Text {
 public:
  /// Begins a family. `type`: "counter" or "gauge".
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    add("# HELP {0}{1} {2}\n# TYPE {0}{1} {3}\n", kPrefix, name, help, type);
  }

  template <class Number>
  void sample(Number value, Labels labels = {}) {
    add("{}{}", kPrefix, name_);
    char before = '{';
    for (const auto& [label, text] : labels) {
      add("{}{}=\"{}\"", std::exchange(before, ','), label, escaped(text));
    }
    if (before == ',') text_ += '}';
    add(" {}\n", value);
  }

  /// A family of one sample; nothing if there is no such number.
  void gauge(std::string_view name, double value, std::string_view help) {
    if (!std::isfinite(value)) return;
    family(name, "gauge", help);
    sample(value);
  }
  void counter(std::string_view name, std::uint64_t value, std::string_view help) {
    family(name, "counter", help);
    sample(value);
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  /// Names come from other peers.
  static std::string escaped(std::string_view text) {
    std::string made;
    for (const char c : base::printable(text, wire::kAddressMax)) {
      if (c == '"' || c == '\\') made += '\\';
      made += c;
    }
    return made;
  }

  std::string_view name_;
  std::string text_;
};

void add_bytes(Text& text, std::string_view name, std::string_view help,
               const BytesByPurpose& bytes) {
  text.family(name, "counter", help);
  for (const auto& [purpose, part] : kPurposes) text.sample(bytes.*part, {{"purpose", purpose}});
}

void add_links(Text& text, const peer::Status& status, const StatusExtra& extra) {
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto value_of) {
    text.family(name, type, help);
    for (std::size_t i = 0; i < status.links.size(); ++i) {
      const peer::LinkStatus& link = status.links[i];
      if (const auto value = value_of(link, i)) {
        text.sample(*value, {{"peer", link.peer.hex()}, {"name", link.name}});
      }
    }
  };
  using Link = peer::LinkStatus;
  using Count = std::optional<std::uint64_t>;
  using Number = std::optional<double>;
  text.family("link_carrier", "gauge", "1: of this kind is what a link's bytes travel on.");
  for (std::size_t i = 0; i < status.links.size(); ++i) {
    text.sample(std::uint64_t{1}, {{"peer", status.links[i].peer.hex()},
                                   {"name", status.links[i].name},
                                   {"carrier", extra.link_carrier[i].kind}});
  }
  text.family("link_trust", "gauge", "1: so far is the other end's replica trusted, by audits.");
  for (const peer::LinkStatus& link : status.links) {
    text.sample(std::uint64_t{1}, {{"peer", link.peer.hex()},
                                   {"name", link.name},
                                   {"trust", exchange::to_string(link.trust)}});
  }
  family("link_exchanges_total", "counter", "Exchanges committed on a link.",
         [](const Link& link, std::size_t) { return Count(link.exchanges); });
  family("link_drift_ratio", "gauge",
         "Distance between the ends' replicas, relative to their norm.",
         [](const Link& link, std::size_t) { return Number(link.drift); });
  family("link_loss_ratio", "gauge",
         "Loss where the link pulls this peer to, as a multiple of the own one, by audits.",
         [](const Link& link, std::size_t) { return Number(link.worse); });
  family("link_density_ratio", "gauge", "Fraction of the parameters that the last delta carried.",
         [](const Link& link, std::size_t) { return Number(link.density); });
  family("link_round_trip_seconds", "gauge", "Smoothed round trip of heartbeats.",
         [](const Link& link, std::size_t) {
           return link.round_trip ? Number(base::seconds(*link.round_trip)) : std::nullopt;
         });
  family("link_silence_seconds", "gauge", "Time since anything was heard on a link.",
         [](const Link& link, std::size_t) { return Number(base::seconds(link.heard_ago)); });
  family("link_sent_bytes_total", "counter", "Bytes sent on a link, TLS and framing included.",
         [&](const Link&, std::size_t i) { return Count(extra.link_sent[i].total); });
  family("link_received_bytes_total", "counter", "Bytes received on a link.",
         [&](const Link&, std::size_t i) { return Count(extra.link_received[i].total); });
}

}  // namespace

std::string prometheus_text(const peer::Status& status, const StatusExtra& extra) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Text text;
  text.family("peer_info", "gauge", "Always 1; its labels say which peer of which run this is.");
  text.sample(1, {{"name", status.name},
                  {"id", status.id.hex()},
                  {"run", extra.run},
                  {"run_id", extra.run_id},
                  {"phase", peer::to_string(status.phase)}});
  text.counter("steps_total", status.steps, "Steps of the optimizer, former lives included.");
  text.counter("samples_total", status.samples, "Samples that this peer has trained on.");
  text.gauge("samples_per_second", extra.samples_per_second, "Since training started.");
  text.gauge("swarm_samples", static_cast<double>(status.swarm_samples),
             "Samples of all peers, as far as this one knows.");
  text.gauge("target_samples", static_cast<double>(status.target_samples),
             "Samples at which the run ends.");
  text.gauge("progress_ratio", status.progress, "Of the run, from 0 to 1.");
  text.gauge("learning_rate", status.learning_rate, "Of the next step.");
  text.gauge("train_loss", status.train_loss.value_or(kNone),
             "Of the last batches, smoothed, in nats.");
  text.gauge("test_loss", status.loss.value_or(kNone), "Of the last evaluation, in nats.");
  text.gauge("test_accuracy_ratio", status.accuracy.value_or(kNone), "Of the last evaluation.");
  text.gauge("drift_ratio", status.drift.value_or(kNone),
             "Distance from the neighbours' replicas, relative to the norm.");
  text.counter("exchanges_total", status.exchanges, "Exchanges committed, over all links.");
  text.counter("reopenings_total", status.reopenings,
               "Links whose mirrors were set anew, since they could not go on.");
  text.counter("mismatches_total", status.mismatches,
               "Mirrors that turned out to differ from the other end's.");
  text.counter("lost_steps_total", status.lost_steps,
               "Exchanges that one end alone may have committed.");
  text.family("members", "gauge", "Peers that this one knows of, itself included.");
  for (const wire::MemberState state : kMemberStates) {
    const auto count = std::ranges::count_if(
        status.members, [&](const auto& member) { return member.record.state == state; });
    text.sample(count, {{"state", wire::to_string(state)}});
  }
  text.gauge("links", static_cast<double>(status.links.size()), "Neighbours with a link.");
  add_bytes(text, "sent_bytes_total", "Bytes sent on links, TLS and framing included.",
            extra.bytes_sent);
  add_bytes(text, "received_bytes_total", "Bytes received on links.", extra.bytes_received);
  add_links(text, status, extra);
  return text.take();
}

}  // namespace starling::report
