// A peer's events: one JSON object per line, for programs; warnings on stderr, for people.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"

namespace starling::report {

enum class Level { info, warning, error };

/// One fact of an event. Referenced data must live until event() returns.
struct Field {
  using Value = std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view>;

  std::string_view name;
  Value value;
};

struct LogOptions {
  bool quiet = false;  ///< nothing on stderr; otherwise warnings and errors go there, too
};

inline constexpr std::size_t kLogFileBytesMax = 16U << 20;  ///< of log.jsonl, which then rotates
inline constexpr std::size_t kLogFilesOldMax = 2;           ///< log.1.jsonl and log.2.jsonl
/// Events between two tries to write to a log whose file could not be written.
inline constexpr std::uint32_t kLogEventsMissed = 64;
inline constexpr std::size_t kLogTextBytesMax = 1024;  ///< of a field's text; the rest is cut off

/// The log of one peer. event() may be called from any thread and does not fail: if the log cannot
/// be written (a full disk), this is reported once on stderr and training continues; the log
/// continues as soon as it can.
class Log {
 public:
  /// Appends to `dir`/log.jsonl. Error (ErrorCode::data): the file cannot be written.
  [[nodiscard]] static base::Result<Log> open(const std::string& dir, LogOptions options = {});

  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// Writes {"time": UTC to the millisecond, "level", "event": name, fields...}. Names are
  /// snake_case; on stderr the same reads "starling: warning: link lost (peer 3a5f01bc, ...)".
  /// Blocks for a write to the file.
  void event(Level level, std::string_view name, std::initializer_list<Field> fields = {});

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

/// The line that Log writes, without its time and level: `"event":"...","field":...`. Texts that
/// are not UTF-8 are repaired; numbers that are not finite become null.
[[nodiscard]] std::string log_fields_json(std::string_view name,
                                          std::initializer_list<Field> fields);

/// The line for people, without "starling: LEVEL: ". A field "text" without others is the whole
/// line.
[[nodiscard]] std::string log_text(std::string_view name, std::initializer_list<Field> fields);

}  // namespace starling::report
