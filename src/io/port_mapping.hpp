// Has this peer's port mapped on the router, by a process of its own: `starling map-port`. What
// that reads comes from a network that may be hostile; this reads what the process says, and no
// more.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>
#include <uv.h>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/loop.hpp"
#include "io/mapping_reports.hpp"

namespace starling::io {

/// A process that ends is followed by another one: after the first pause, then each time twice as
/// long.
inline constexpr base::Duration kMapperPause = std::chrono::seconds(5);
inline constexpr base::Duration kMapperPauseMax = std::chrono::minutes(10);
/// The process is given so long to remove the mapping when it is told to end.
inline constexpr base::Duration kMapperEnd = std::chrono::seconds(2);

/// This program, where it is `starling`.
inline constexpr char kOwnProgram[] = "/proc/self/exe";

/// The program `starling`, of which a process is started: named by STARLING_PROGRAM, or this
/// program itself, or where one lies beside it (also ../bin, and in a build folder). Error (usage):
/// where it was looked for.
[[nodiscard]] base::Result<std::string> find_mapper();

/// On the loop's thread. The process ends with that thread.
class PortMapping {
 public:
  struct Observer {
    std::function<void()> changed;  ///< addresses() has
    std::function<void(const std::string& text)> note;
  };

  /// `program`: as find_mapper() has it; `listen`: the "ip:port" that is listened on.
  PortMapping(Loop& loop, std::string program, std::string listen, Observer observer);
  PortMapping(const PortMapping&) = delete;
  PortMapping& operator=(const PortMapping&) = delete;
  /// Waits until the mapping is removed, kMapperEnd at most.
  ~PortMapping();

  /// As MappingReports has them.
  [[nodiscard]] std::vector<std::string> addresses() const { return reports_.addresses(); }
  [[nodiscard]] std::vector<base::IpPort> mapped() const { return reports_.mapped(); }
  [[nodiscard]] std::string said() const { return reports_.said(); }
  /// Has the mapping removed; nothing is reported any more.
  void end();

 private:
  void start();
  [[nodiscard]] base::Status spawn();
  void read();
  void settle();
  void stop(const std::string& why);
  void on_timer();

  Loop& loop_;
  const std::string program_;
  const std::string listen_;
  const Observer observer_;
  MappingReports reports_;
  std::vector<std::string> told_;  ///< the addresses when `changed` was called
  Timer restart_;
  Timer expiry_;
  base::Duration pause_ = kMapperPause;
  base::Time started_{};
  pid_t process_ = 0;  ///< 0: none
  base::Descriptor input_{-1};
  base::Descriptor output_{-1};
  std::unique_ptr<Handle<uv_poll_t>> readable_;
  bool over_ = false;
};

}  // namespace starling::io
