// A peer's control port with a test's answers.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

namespace starling::integration {

class Answers {
 public:
  /// JSON, by the requested path.
  Answers(std::initializer_list<std::pair<const char*, std::string>> answers);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers();

  [[nodiscard]] std::string address() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace starling::integration
