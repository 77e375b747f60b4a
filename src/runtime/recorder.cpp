#include "runtime/recorder.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/resource.h>

#include "report/language.hpp"
#include "runtime/by_purpose.hpp"

namespace starling::runtime {
namespace {

using base::ErrorCode;
using base::fail;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const char* name_of(const io::NodeEnd& end) {
  if (end.reason == peer::EndReason::done) return "done";
  if (end.reason == peer::EndReason::left) return "left";
  return end.error.code == ErrorCode::diverged ? report::kEndDiverged : report::kEndFailed;
}

std::uint64_t rss_max_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

base::Result<Recorder> Recorder::open(Subject subject, const train::CheckpointState* goes_on_from,
                                      report::Log& log) {
  auto metrics = report::MetricsFile::open(
      subject.dir, goes_on_from != nullptr ? std::optional(goes_on_from->samples) : std::nullopt);
  if (!metrics) return fail(metrics.error());
  const std::uint64_t first_step = goes_on_from != nullptr ? goes_on_from->step.value + 1 : 0;
  auto tensorboard =
      report::TensorBoardFile::open(subject.dir, subject.name, first_step, seconds_since_1970());
  if (!tensorboard) return fail(tensorboard.error());
  return Recorder(std::move(subject), log, std::move(*metrics), std::move(*tensorboard));
}

Recorder::Recorder(Subject subject, report::Log& log, report::MetricsFile metrics,
                   report::TensorBoardFile tensorboard)
    : subject_(std::move(subject)),
      log_(log),
      metrics_(std::move(metrics)),
      tensorboard_(std::move(tensorboard)) {}

void Recorder::add(const peer::Status& status, bool evaluated, const io::LinkTraffic& traffic,
                   base::Time now) {
  const double seconds = status.training_since ? base::seconds(now - *status.training_since) : 0;
  if (evaluated && status.loss) {
    history_.push({.seconds = seconds,
                   .samples = status.samples,
                   .accuracy = status.accuracy,
                   .loss = *status.loss,
                   .bytes_sent = traffic.sent_total()});
  }
  const auto written = write({.seconds = seconds,
                              .samples = status.samples,
                              .steps = status.steps,
                              .loss = evaluated ? status.loss : std::nullopt,
                              .train_loss = status.train_loss,
                              .accuracy = evaluated ? status.accuracy : std::nullopt,
                              .lr = status.learning_rate,
                              .drift = status.drift,
                              .links = static_cast<std::uint32_t>(status.links.size()),
                              .bytes_sent = traffic.sent_total(),
                              .bytes_received = traffic.received_total(),
                              .exchanges = status.exchanges});
  // A full disk, or a folder that is gone, is reported once, not with each row.
  if (!written && !rows_fail_) {
    log_.event(report::Level::warning, "metrics_not_written",
               {{"text", std::string_view(written.error().text)}});
  }
  rows_fail_ = !written;
}

base::Status Recorder::write(const report::MetricsRow& row) {
  const auto written = metrics_.append(row);
  std::error_code error;
  if (!std::filesystem::exists(subject_.dir, error)) {
    // Data written to open files in it would be lost.
    return fail(ErrorCode::data, "{}: this peer's folder is not there any more", subject_.dir);
  }
  if (!written) return fail(written.error());
  return *written ? tensorboard_.append(**written, seconds_since_1970()) : base::Status{};
}

report::PeerSummary Recorder::summary(const io::NodeEnd& end) const {
  const peer::Status& status = end.status;
  const std::optional<double> loss = status.whole_test_set ? status.loss : std::nullopt;
  report::PeerSummary made{.name = subject_.name,
                           .id = subject_.id.hex(),
                           .run = subject_.run.hex(),
                           .end = name_of(end),
                           .accuracy = status.whole_test_set ? status.accuracy : std::nullopt,
                           .loss = loss,
                           .language = report::language_quality(loss, subject_.bytes_per_label),
                           .samples = status.samples,
                           .steps = status.steps,
                           .bytes_sent = by_purpose(end.traffic.sent),
                           .bytes_received = by_purpose(end.traffic.received),
                           .exchanges = status.exchanges,
                           .drift = status.drift,
                           .settled = status.settled,
                           .left_out = {},
                           .rss_max_bytes = rss_max_bytes(),
                           .history = history_.values()};
  for (const peer::LeftOut& one : status.left_out) {
    made.left_out.push_back({.name = one.name,
                             .id = one.peer.hex(),
                             .why = std::string(base::name_of(one.why, exchange::kLeftOutNames))});
  }
  if (status.training_since && status.last_step) {
    made.seconds = base::seconds(*status.last_step - *status.training_since);
  }
  if (status.first_step) {
    made.seconds_to_first_step = base::seconds(*status.first_step - subject_.started);
  }
  return made;
}

report::PeerSummary Recorder::finish(const io::NodeEnd& end) {
  report::PeerSummary made = summary(end);
  if (const auto written = report::write_summary(subject_.dir, made); !written) {
    log_.event(report::Level::warning, "summary_not_written",
               {{"text", std::string_view(written.error().text)}});
  }
  if (!end.error.text.empty()) {
    log_.event(report::Level::error, "failed", {{"text", std::string_view(end.error.text)}});
  }
  return made;
}

}  // namespace starling::runtime
