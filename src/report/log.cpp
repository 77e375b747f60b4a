#include "report/log.hpp"

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <utility>

#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>

#include "base/assert.hpp"
#include "base/file.hpp"
#include "base/printable.hpp"
#include "report/print_at_once.hpp"

namespace starling::report {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  ASSERT(false, "every level is listed");
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
  }
  ASSERT(false, "every level is listed");
}

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string value_json(const Field::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return json_text(std::string(text->substr(0, kLogTextBytesMax)));
  }
  return std::visit([](const auto& v) { return json_text(nlohmann::json(v)); }, value);
}

std::string value_text(const Field::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return base::printable(*text, kLogTextBytesMax);
  }
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.6g}", *number);
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string with_spaces(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c == '_') c = ' ';
  }
  return text;
}

/// Throws spdlog_ex if the file cannot be written.
spdlog::sink_ptr make_sink(const std::string& dir) {
  return std::make_shared<spdlog::sinks::rotating_file_sink_st>(dir + "/log.jsonl",
                                                                kLogFileBytesMax, kLogFilesOldMax);
}

}  // namespace

std::string log_fields_json(std::string_view name, std::initializer_list<Field> fields) {
  std::string json = "\"event\":" + json_text(std::string(name));
  for (const Field& field : fields) {
    json += "," + json_text(std::string(field.name)) + ":" + value_json(field.value);
  }
  return json;
}

std::string log_text(std::string_view name, std::initializer_list<Field> fields) {
  // If there is only a text, it says what happened: the event's name is then for programs.
  if (fields.size() == 1 && fields.begin()->name == "text") {
    return value_text(fields.begin()->value);
  }
  std::string text = with_spaces(name);
  std::string_view separator = " (";
  for (const Field& field : fields) {
    text += fmt::format("{}{} {}", separator, with_spaces(field.name), value_text(field.value));
    separator = ", ";
  }
  if (fields.size() > 0) text += ")";
  return text;
}

struct Log::Impl {
  std::string dir;
  LogOptions options;
  std::mutex mutex;
  spdlog::logger logger;  ///< guarded by mutex, and so are those below
  bool failed = false;
  bool failure_said = false;
  std::uint32_t missed = 0;  ///< events since it failed

  Impl(std::string folder, const LogOptions& wanted)
      : dir(std::move(folder)), options(wanted), logger("log", make_sink(dir)) {
    // Events are rare (links, evaluations, faults); what led to a crash must be on disk.
    logger.flush_on(spdlog::level::trace);
    logger.set_error_handler([this](const std::string& text) {
      failed = true;
      if (std::exchange(failure_said, true)) return;
      std::fprintf(stderr, "starling: warning: the log cannot be written: %s\n", text.c_str());
    });
    set_format();
  }

  // %l would also say "warning" and "error", but only by coincidence: ours are written out.
  void set_format() {
    logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v})", spdlog::pattern_time_type::utc, "\n"));
  }

  // A sink that could not rotate its file has no file, and would write to it anyway. Each try takes
  // some time.
  bool reopen() {
    if (missed++ % kLogEventsMissed != 0) return false;
    try {
      logger.sinks().front() = make_sink(dir);
    } catch (const spdlog::spdlog_ex&) {
      return false;
    }
    set_format();
    failed = false;
    missed = 0;
    return true;
  }

  void write(spdlog::level::level_enum level, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (!failed || reopen()) logger.log(level, text);
  }
};

base::Result<Log> Log::open(const std::string& dir, LogOptions options) {
  if (auto made = base::make_folder(dir); !made) return base::fail(made.error());
  try {
    return Log(std::make_unique<Impl>(dir, options));
  } catch (const spdlog::spdlog_ex& problem) {
    return base::fail(base::ErrorCode::data, "{}/log.jsonl: cannot be written: {}", dir,
                      problem.what());
  }
}

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
Log::~Log() = default;

void Log::event(Level level, std::string_view name, std::initializer_list<Field> fields) {
  impl_->write(spdlog_level(level),
               fmt::format(R"("level":"{}",{})", level_name(level), log_fields_json(name, fields)));
  if (!impl_->options.quiet && level >= Level::warning) {
    print_at_once(stderr,
                  fmt::format("starling: {}: {}\n", level_name(level), log_text(name, fields)));
  }
}

}  // namespace starling::report
