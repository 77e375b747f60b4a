// The switch's control socket: lines in, lines out, on a Unix socket.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

struct uv_loop_s;

namespace starling::net_switch {

inline constexpr std::size_t kClientsMax = 8;

/// Listens until close(). Belongs to the loop's thread; after close() the loop has to run once more
/// before this may be destroyed.
class Control {
 public:
  /// Answers a request, both without the line's end.
  using Answer = std::function<std::string(std::string_view)>;

  /// Error (network): the socket cannot be made there; a file that exists at `path` is never
  /// replaced.
  [[nodiscard]] static base::Result<std::unique_ptr<Control>> create(uv_loop_s* loop,
                                                                     const std::string& path,
                                                                     Answer answer);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

  void close();

 private:
  struct Impl;
  explicit Control(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::net_switch
