// Lets a separate process, `starling map-port`, map this peer's port on the router. That process
// reads bytes from a network that may be hostile; this file reads only the process's reports.
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

/// The pause before a process that ended is replaced; each further pause is twice as long.
inline constexpr base::Duration kMapperPause = std::chrono::seconds(5);
inline constexpr base::Duration kMapperPauseMax = std::chrono::minutes(10);
/// The time that the process gets to remove the mapping when it is told to end.
inline constexpr base::Duration kMapperEnd = std::chrono::seconds(2);

/// This program, if it is `starling`.
inline constexpr char kOwnProgram[] = "/proc/self/exe";

/// The program `starling` for the process: named by STARLING_PROGRAM, or this program itself, or
/// one beside it (also in ../bin, and in a build folder). Error (usage): names the searched places.
[[nodiscard]] base::Result<std::string> find_mapper();

/// On the loop's thread. The process ends with that thread.
class PortMapping {
 public:
  struct Observer {
    std::function<void()> changed;  ///< addresses() has changed
    std::function<void(const std::string& text)> note;
  };

  /// `program`: from find_mapper(); `listen`: the "ip:port" on which the peer listens.
  PortMapping(Loop& loop, std::string program, std::string listen, Observer observer);
  PortMapping(const PortMapping&) = delete;
  PortMapping& operator=(const PortMapping&) = delete;
  /// Waits until the mapping is removed, kMapperEnd at most.
  ~PortMapping();

  /// Like MappingReports::addresses().
  [[nodiscard]] std::vector<std::string> addresses() const { return reports_.addresses(); }
  [[nodiscard]] std::vector<base::IpPort> mapped() const { return reports_.mapped(); }
  [[nodiscard]] std::string said() const { return reports_.said(); }
  /// Lets the mapping be removed; nothing more is reported.
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
